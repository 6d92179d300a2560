"""Planted faults at every level, and the sentence that names each."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import onnx
import pytest

from benchmarks.kernel_models import convolution, matmul
from compiler.codegen.kernel import Kernel
from compiler.graph.ir import Graph
from compiler.loop.ir import LoopNest
from compiler.pipeline import build_kernel, build_nest
from compiler.runtime import link
from compiler.runtime.memory_plan import MemoryPlan, Place, plan_memory
from compiler.scalar import Apply, Expr, rewrite
from compiler.schedule.schedule import Schedule
from compiler.schedule.steps import Split
from compiler.target import Target
from compiler.workload.ir import Workload
from luthier import bisect as module
from luthier.bisect import Check, bisect
from luthier.build import make_options
from tests.compiler.runtime.test_module import small_model

Cli = Callable[..., "subprocess.CompletedProcess[str]"]
CONTRACT = Path(__file__).resolve().parents[2] / "docs" / "contracts" / "bisect.schema.json"


@pytest.fixture
def product(tmp_path: Path) -> Path:
    path = tmp_path / "product.onnx"
    onnx.save(matmul(5, 19, 37), path)
    return path


def checks(path: Path) -> list[Check]:
    return list(bisect(path, make_options(threads=1)))


def wrong(found: list[Check]) -> list[str]:
    return [check.level for check in found if check.wrong]


def without_relu(body: Expr) -> Expr:
    return rewrite(body, lambda e: e.args[0] if isinstance(e, Apply) and e.op == "max" else None)


def spoiled(workload: Workload) -> Workload:
    """The Workload without its ReLU."""
    results = [
        replace(stage, body=without_relu(stage.body)) if stage.reducer is None else stage
        for stage in workload.stages
    ]
    return replace(workload, stages=tuple(results))


def splits(schedule: Schedule) -> bool:
    return any(isinstance(step, Split) for step in schedule.steps)


def test_a_right_model_is_right_at_every_level(tmp_path: Path) -> None:
    onnx.save(small_model(), tmp_path / "small.onnx")
    found = checks(tmp_path / "small.onnx")
    assert wrong(found) == []
    assert {check.level for check in found} >= {"partition", "kernel", "link"}
    assert all(check.error is not None for check in found)


def test_a_wrong_pass_is_named(product: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class DropRelu:
        name = "drop ReLU"

        def run(self, graph: Graph) -> Graph:
            nodes = [
                replace(n, compute=replace(n.compute, body=without_relu(n.compute.body))) for n in graph.nodes
            ]
            return graph.with_nodes(tuple(nodes))

    monkeypatch.setattr(module, "GRAPH_PASSES", (*module.GRAPH_PASSES, DropRelu()))
    found = checks(product)
    assert wrong(found) == ["pass"]
    assert (found[-1].level, found[-1].name) == ("pass", "drop ReLU")


def test_a_step_that_is_lowered_wrongly_is_named(product: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def kernel(workload: Workload, schedule: Schedule, target: Target) -> Kernel:
        return build_kernel(spoiled(workload) if splits(schedule) else workload, schedule, target)

    def nest(workload: Workload, schedule: Schedule) -> LoopNest:
        return build_nest(spoiled(workload) if splits(schedule) else workload, schedule)

    monkeypatch.setattr(module, "build_kernel", kernel)
    monkeypatch.setattr(module, "build_nest", nest)
    found = checks(product)
    assert wrong(found) == ["kernel", "kernel", "step", "code"]
    step = next(check for check in found if check.wrong and check.level == "step")
    assert "split" in step.name.lower()
    assert "the step is at fault" in found[-1].detail


def test_wrong_code_of_a_right_nest_is_the_code_generator(
    product: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kernel(workload: Workload, schedule: Schedule, target: Target) -> Kernel:
        return build_kernel(spoiled(workload) if splits(schedule) else workload, schedule, target)

    monkeypatch.setattr(module, "build_kernel", kernel)
    found = checks(product)
    assert wrong(found) == ["kernel", "kernel", "step"]
    assert (found[-1].level, found[-1].wrong) == ("code", False)
    assert "the code generator is at fault" in found[-1].detail


def test_a_wrong_memory_plan_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    onnx.save(small_model(), tmp_path / "small.onnx")

    def everything_at_once(*arguments: Any) -> MemoryPlan:
        plan = plan_memory(*arguments)
        places = {name: replace(place, offset=0) for name, place in plan.places.items()}
        assert any(place != Place(place.zeroed, 0) for place in plan.places.values())
        return replace(plan, places=places)

    monkeypatch.setattr(link, "plan_memory", everything_at_once)
    found = checks(tmp_path / "small.onnx")
    assert wrong(found) == ["link"]
    assert "memory plan" in found[-1].detail


def test_a_kernel_that_is_too_large_to_interpret_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    onnx.save(convolution(16, 32, (40, 40), (3, 3)), tmp_path / "large.onnx")

    def kernel(workload: Workload, schedule: Schedule, target: Target) -> Kernel:
        return build_kernel(spoiled(workload), schedule, target)

    monkeypatch.setattr(module, "build_kernel", kernel)
    found = checks(tmp_path / "large.onnx")
    steps = [check for check in found if check.level == "step"]
    assert [check.name for check in steps] == ["0: no step at all"]
    assert any("too large to interpret" in check.detail for check in found if check.level == "code")


def test_the_command(product: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    right = cli("inspect", product, "--threads", "1", "--bisect")
    assert right.returncode == 0, right.stderr
    assert "right at every level" in right.stdout
    assert cli("inspect", product, "--bisect", "--print", "graph").returncode == 2

    def kernel(workload: Workload, schedule: Schedule, target: Target) -> Kernel:
        return build_kernel(spoiled(workload), schedule, target)

    monkeypatch.setattr(module, "build_kernel", kernel)
    done = cli("inspect", product, "--threads", "1", "--bisect", "--json")
    assert done.returncode == 1
    assert "luthier: kernel matmul" in done.stderr
    document = json.loads(done.stdout)
    jsonschema.validate(document, json.loads(CONTRACT.read_text()))
    assert any(check["wrong"] for check in document["checks"])
