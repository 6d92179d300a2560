"""A fault of the rules costs one kernel its speed, and nobody the model."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import helper

from compiler.errors import ScheduleError
from compiler.pipeline import compile_program, load_graph, lower
from compiler.schedule.schedule import Schedule
from compiler.schedule.source import NoSource
from compiler.schedule.steps import Split
from compiler.space.reduction import Reduction
from compiler.space.rules import RULES, build_space
from compiler.space.space import SearchSpace
from compiler.target import Target, native_target
from compiler.workload.ir import Workload
from tests.compiler.frontend.models import model as network
from tests.onnx_runtime import expected_outputs

NO_SUCH_LOOP = Schedule((Split("anchor", "no such loop", 4),))


@pytest.fixture
def model() -> onnx.ModelProto:
    kernel = np.random.default_rng(0).standard_normal((8, 4, 3, 3)).astype(np.float32)
    nodes = [helper.make_node("Conv", ["x", "kernel"], ["y"], pads=[1, 1, 1, 1])]
    return network(nodes, {"x": (1, 4, 9, 9)}, {"kernel": kernel})


Change = Callable[[SearchSpace], SearchSpace]


def with_fault(monkeypatch: pytest.MonkeyPatch, change: Change) -> None:
    """A rule for reductions that makes a fault."""

    class Faulty(Reduction):
        def space(self, workload: Workload, target: Target, threads: int) -> SearchSpace:
            return change(super().space(workload, target, threads))

    monkeypatch.setattr("compiler.space.rules.RULES", (Faulty(), *RULES))


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name == "luthier"]


def check(model: onnx.ModelProto) -> None:
    x = np.random.default_rng(1).standard_normal((1, 4, 9, 9)).astype(np.float32)
    with closing(compile_program(lower(load_graph(model)), native_target(), 1, NoSource())) as module:
        np.testing.assert_allclose(
            module.run({"x": x})["y"], expected_outputs(model, {"x": x})["y"], rtol=1e-4, atol=1e-4
        )


@pytest.mark.parametrize("starts", [True, False])
def test_a_default_that_has_no_code(
    model: onnx.ModelProto,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    starts: bool,  # noqa: FBT001
) -> None:
    def change(space: SearchSpace) -> SearchSpace:
        wrong = space.values(space.default)

        def build(values: dict[str, object]) -> Schedule:
            return NO_SUCH_LOOP if values == wrong or not starts else space.build(values)  # type: ignore[arg-type]

        return replace(space, build=build)

    with_fault(monkeypatch, change)
    with caplog.at_level(logging.WARNING, "luthier"):
        check(model)
    (warning,) = messages(caplog)
    assert "no such loop" in warning
    assert "may be slow; please report it" in warning


def test_a_default_that_does_not_fit_its_target(
    model: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def change(space: SearchSpace) -> SearchSpace:
        wrong = space.values(space.default)
        return replace(space, legal=lambda values: values != wrong and space.legal(values))

    workload = next(g.workload for g in lower(load_graph(model)).subgraphs if Reduction().applies(g.workload))
    usual = build_space(workload, native_target(), 1)
    with_fault(monkeypatch, change)
    with caplog.at_level(logging.WARNING, "luthier"):
        space = build_space(workload, native_target(), 1)
    assert usual.default != space.default
    assert space.is_legal(space.default)
    (warning,) = messages(caplog)
    assert workload.digest[:12] in warning
    check(model)


def test_a_rule_of_which_nothing_fits(model: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch) -> None:
    def build(values: object) -> Schedule:
        msg = f"the knobs {values} do not fit the target; choose legal ones"
        raise ScheduleError(msg)

    with_fault(monkeypatch, lambda space: replace(space, legal=lambda _: False, build=build, starts=()))
    with pytest.raises(ScheduleError, match="do not fit the target"):
        check(model)
