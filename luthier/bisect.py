"""Where a wrong result comes from: each level of the compiler against float64, the first wrong one named.

    pass        the Graph after each pass that changed it, against the Graph as imported
    partition   the Program with its layouts and Subgraphs, against the same
    kernel      each Subgraph's machine code, alone and on right inputs, against its Workload
    step        of the Schedule of a wrong kernel: the shortest beginning of its Steps that is wrong
    code        the LoopNest of a wrong kernel interpreted: right means that the code generator is at fault
    link        all kernels right and the Module wrong: memory plan, program or team

A wrong pass or partition ends the search: what follows is right or wrong of another model.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from compiler.choice import default_schedule
from compiler.codegen.kernel import Param
from compiler.errors import LuthierError
from compiler.evaluate import reference_outputs
from compiler.graph.evaluate import evaluate_graph
from compiler.graph.ir import Graph
from compiler.graph.pipeline import GRAPH_PASSES
from compiler.loop.interpreter import interpret
from compiler.loop.ir import Buffer
from compiler.pipeline import build_kernel, build_nest, load_graph, lower
from compiler.runtime.image import TensorSpec
from compiler.runtime.loader import LoadedKernel
from compiler.schedule.schedule import Schedule
from compiler.schedule.steps import step_json
from compiler.symbol import as_size, size_at
from compiler.workload.evaluate import evaluate_program, operands, store
from compiler.workload.program import Program, Subgraph
from luthier.bench.reference import make_inputs, relative_error
from luthier.build import BuildOptions, build_module
from luthier.levels import inspect_tasks
from service.records.source import model_error_budget

Level = Literal["pass", "partition", "kernel", "step", "code", "link"]
Arrays = Mapping[str, np.ndarray[Any, Any]]
_INTERPRETED_OPERATIONS = 2_000_000
"""What the interpreter does within a minute or so."""


@dataclass(frozen=True, slots=True)
class Check:
    """One comparison with float64; `detail` says what a wrong one means, or why it could not be made."""

    level: Level
    name: str
    error: float | None
    wrong: bool
    detail: str = ""


def bisect(path: Path, options: BuildOptions) -> Iterator[Check]:
    """Check level after level, and yield each as it is known; raises LuthierError where the model cannot be read."""
    graph = load_graph(path, options.shapes)
    specs = [TensorSpec(n, tuple(map(as_size, kind.shape)), kind.dtype) for n, kind in graph.inputs.items()]
    program = lower(graph)
    inputs = make_inputs(specs, program=program)
    expected = evaluate_graph(graph, inputs)
    budget = model_error_budget(options.error_budget)

    def check(level: Level, name: str, outputs: Arrays, detail: str = "") -> Check:
        error = relative_error(outputs, expected)
        return Check(level, name, error, not error <= budget, detail if not error <= budget else "")

    for name, changed in _passes(graph):
        found = check(
            "pass", name, evaluate_graph(changed, inputs), "this pass changed what the model computes"
        )
        yield found
        if found.wrong:
            return
    found = check(
        "partition", program.name, evaluate_program(program, inputs), "a layout, a fusion or a copy is wrong"
    )
    yield found
    if found.wrong:
        return
    broken = yield from _kernels(program, inputs, options)
    if broken == 0:
        with closing(build_module(program, options)) as module:
            yield check(
                "link",
                program.name,
                module.run(inputs),
                "memory plan, program or team: every kernel is right",
            )


def _passes(graph: Graph) -> Iterator[tuple[str, Graph]]:
    for step in GRAPH_PASSES:
        changed = step.run(graph)
        if changed is not graph:
            yield step.name, changed
        graph = changed


def _kernels(program: Program, inputs: Arrays, options: BuildOptions) -> Generator[Check, None, int]:
    """The Checks of all Subgraphs; returns how many are wrong. Their inputs are right ones, rounded to their types."""
    schedules = {c.workload.digest: c.found.schedule for c in inspect_tasks(program, options)}
    budget, broken = options.task_error_budget, 0
    values: dict[str, np.ndarray[Any, Any]] = {**program.constants, **inputs}
    for subgraph in program.subgraphs:
        case = _Case(subgraph, operands(program, subgraph, values), options, budget)
        found = case.check("kernel", subgraph.name, schedules[subgraph.workload.digest], case.native)
        yield found
        if found.wrong:
            broken += 1
            yield from case.explain(schedules[subgraph.workload.digest])
        store(program, subgraph, values, case.expected)
    return broken


class _Case:
    """A Subgraph with its operands and what it must compute of them."""

    def __init__(self, subgraph: Subgraph, values: Arrays, options: BuildOptions, budget: float) -> None:
        self._workload, self._options, self._budget = subgraph.workload, options, budget
        self._operands = {o.name: values[o.name].astype(o.dtype.numpy) for o in subgraph.workload.operands}
        self.expected = reference_outputs(subgraph.workload, self._operands)

    def check(
        self, level: Level, name: str, schedule: Schedule, run: Callable[[Schedule], Arrays], detail: str = ""
    ) -> Check:
        try:
            error = relative_error(run(schedule), self.expected)
        except LuthierError as problem:
            return Check(level, name, None, wrong=False, detail=f"not checked: {problem}")
        return Check(
            level, name, error, not error <= self._budget, detail if not error <= self._budget else ""
        )

    def explain(self, schedule: Schedule) -> Iterator[Check]:
        """Checks of a wrong Schedule: its beginnings up to the first wrong one, then the interpreter on that one."""
        yield self.check("kernel", "the default schedule", self._default(), self.native, "wrong as well")
        for count in range(len(schedule.steps) + 1):
            beginning = Schedule(schedule.steps[:count])
            name = f"{count}: {step_json(schedule.steps[count - 1])}" if count else "0: no step at all"
            found = self.check(
                "step", name, beginning, self.native, "the first wrong beginning of the schedule"
            )
            yield found
            if found.wrong:
                yield self._interpreted(beginning)
                return

    def native(self, schedule: Schedule) -> Arrays:
        """The outputs, from machine code."""
        kernel = build_kernel(self._workload, schedule, self._options.target)
        arrays = {p.name: self._array(p, p.sizes()) for p in kernel.params}
        with closing(LoadedKernel(kernel, self._options.threads)) as loaded:
            loaded.run([arrays[p.name].ctypes.data for p in kernel.params])
        return {o.name: arrays[o.name] for o in self._workload.outputs}

    def _interpreted(self, schedule: Schedule) -> Check:
        if self._workload.operations > _INTERPRETED_OPERATIONS:
            detail = "not checked: too large to interpret; see where --print loop and --print asm differ"
            return Check("code", "the LoopNest interpreted", None, wrong=False, detail=detail)
        found = self.check("code", "the LoopNest interpreted", schedule, self._interpret)
        if found.error is None:
            return found
        detail = (
            "so the step is at fault, or its lowering" if found.wrong else "so the code generator is at fault"
        )
        return replace(found, detail=detail)

    def _interpret(self, schedule: Schedule) -> Arrays:
        nest = build_nest(self._workload, schedule)
        arrays = {b.name: self._array(b, tuple(size_at(n, {}) for n in b.shape)) for b in nest.params}
        interpret(nest, arrays)
        return {o.name: arrays[o.name] for o in self._workload.outputs}

    def _default(self) -> Schedule:
        budget = self._options.task_error_budget
        return default_schedule(self._workload, self._options.target, self._options.threads, budget)

    def _array(self, param: Param | Buffer, sizes: tuple[int, ...]) -> np.ndarray[Any, Any]:
        """Operands as the kernel wants them; zeros for the rest, as the memory plan has them around a halo."""
        if param.role not in ("input", "constant"):
            return np.zeros(sizes, param.dtype.numpy)
        source = self._operands[param.name]
        packed = source if param.packing is None else param.packing.apply(source)
        return np.ascontiguousarray(packed).reshape(sizes)
