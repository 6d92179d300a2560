"""The five networks: right on any number of threads, under any schedules, and computed by our machine code alone."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import luthier
from compiler.codegen.llvm import emit_object
from compiler.graph.evaluate import evaluate_graph
from compiler.pipeline import compile_program, load_graph, lower
from compiler.runtime.module import Module
from compiler.schedule.source import TASK_ERROR_BUDGET, Found, NoSource
from compiler.space.rules import build_space
from compiler.target import Target, native_target
from compiler.workload.ir import Workload
from compiler.workload.program import Program
from examples.networks import NAMES, filled
from tests.slow import THREADS

BUDGET = 1e-4
TRIALS = 12
"""Of each task, in the mean."""


class RandomSource:
    """A random legal schedule for every Workload; transforming algorithms wherever they apply, as tuning tends to."""

    error_budget = TASK_ERROR_BUDGET

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)

    def lookup(self, workloads: Sequence[Workload], target: Target, threads: int) -> list[Found | None]:
        found: list[Found | None] = []
        for workload in workloads:
            space = build_space(workload, target, threads)
            samples = [space.sample(self._rng) for _ in range(8)]
            chosen = max(samples, key=lambda a: space.values(a).get("algorithm", "") != "direct")
            found.append(Found(space.schedule(chosen), "exact"))
        return found


class Network:
    """A network with one input and what it must compute, in float64."""

    def __init__(self, path: Path) -> None:
        self.path = path
        graph = load_graph(path)
        self.program: Program = lower(graph)
        (name, kind), *_ = graph.inputs.items()
        x = np.random.default_rng(0).standard_normal(kind.sizes).astype(np.float32)
        self.inputs = {name: x}
        self.expected = evaluate_graph(graph, self.inputs, np.float64)

    def error(self, outputs: dict[str, np.ndarray]) -> float:
        return max(
            float(np.max(np.abs(outputs[name] - wanted)) / np.max(np.abs(wanted)))
            for name, wanted in self.expected.items()
        )


@pytest.fixture(scope="module", params=NAMES)
def network(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Network:
    return Network(filled(request.param, tmp_path_factory.mktemp("networks")))


@pytest.mark.parametrize("threads", THREADS)
def test_untuned(network: Network, threads: int) -> None:
    module = compile_program(network.program, native_target(), threads, NoSource())
    for _ in range(2):
        assert network.error(module.run(network.inputs)) <= BUDGET
    module.close()


@pytest.mark.parametrize("threads", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_under_random_schedules(network: Network, threads: int) -> None:
    module = compile_program(network.program, native_target(), threads, RandomSource(threads))
    for _ in range(2):
        assert network.error(module.run(network.inputs)) <= BUDGET
    module.close()


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_tuned(network: Network, threads: int, tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'log.db'}"
    tasks = {subgraph.workload.digest for subgraph in network.program.subgraphs}
    # A bound of seconds would leave tasks without a record on a slow machine, or beside another test.
    luthier.tune(network.path, trials=TRIALS * len(tasks), threads=threads, database=database)
    module = luthier.compile(network.path, threads=threads, database=database)
    assert {lookup.lookup for lookup in module.lookups} == {"exact"}
    assert network.error(module.run(network.inputs)) <= BUDGET


WATCHED_RUN = """
import sys
import numpy as np
import luthier

module = luthier.compile(sys.argv[1], threads=2)
spec = module.inputs[0]
inputs = {spec.name: np.ones(spec.shape, np.float32)}
outputs = {o.name: np.full(o.shape, np.nan, np.float32) for o in module.outputs}
module.run_into(inputs, outputs)
for array in outputs.values():
    array.fill(np.nan)
called = set()

def watch(frame, event, argument):
    if event == "c_call":
        called.add(f"{getattr(argument, '__module__', None)}.{argument.__qualname__}")
    elif event == "call":
        called.add(frame.f_globals.get("__name__", "?"))

sys.setprofile(watch)
module.run_into(inputs, outputs)
sys.setprofile(None)
assert all(np.isfinite(array).all() for array in outputs.values())
print("engines", sorted({n.split(".")[0] for n in sys.modules} & {"onnxruntime", "openvino", "torch", "tvm", "jax"}))
print("called", sorted(called))
"""


def test_nothing_but_our_machine_code_computes(tmp_path: Path) -> None:
    """A run enters no other engine, no evaluator, no interpreter, and no NumPy function that does arithmetic."""
    path = filled("mlp", tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", WATCHED_RUN, str(path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    engines, called = done.stdout.splitlines()
    assert engines == "engines []"
    names = {n.strip("'[] ") for n in called.removeprefix("called ").split(",")}
    python = {n for n in names if n.startswith(("compiler.", "luthier.", "numpy."))}
    ours = {n for n in python if n.startswith(("compiler.", "luthier."))}
    assert ours <= {
        f"compiler.{name}"
        for name in (
            *(
                "runtime.loader",
                "runtime.module",
                "runtime.teams",
                "runtime.sized",
                "runtime.arguments",
                "runtime.aligned",
            ),
            "dtype",
        )
    }
    assert "compiler.runtime.loader" in ours
    assert {n for n in python if n.startswith("numpy.")} <= {
        "numpy.asarray",
        "numpy.array",
        "numpy._core._internal",
    }


def test_a_planted_kernel_changes_the_result(tmp_path: Path) -> None:
    """The outputs come from the kernels' object code: another object under the same name gives another answer."""
    program = lower(load_graph(filled("mlp", tmp_path)))
    module = compile_program(program, native_target(), 1, NoSource())
    image = module._image
    last = image.kernels[image.calls[-1].kernel]
    output = next(i for i, p in enumerate(last.params) if p.role == "output")
    parameters = ", ".join(f"ptr %p{i}" for i in range(len(last.params)))
    ir = (
        f"define void @{last.phases[-1].symbol}({parameters}, i64 %begin, i64 %end) {{\n"
        f"  store float 42.0, ptr %p{output}\n  ret void\n}}\n"
    )
    code = emit_object(ir, native_target())
    planted = replace(last, phases=(*last.phases[:-1], replace(last.phases[-1], object_code=code)))
    changed = Module(replace(image, kernels={**image.kernels, last.name: planted}))
    x = np.ones(image.inputs[0].shape, np.float32)
    name = image.outputs[0].name
    assert changed.run({image.inputs[0].name: x})[name].reshape(-1)[0] == 42.0
    assert module.run({image.inputs[0].name: x})[name].reshape(-1)[0] != 42.0
