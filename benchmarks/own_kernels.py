"""Our kernels of a model alone: its Tasks one after the other in native code, on buffers of their own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from compiler.choice import choose_schedules
from compiler.codegen.kernel import Kernel, Param, phase_objects
from compiler.codegen.program import phase_calls, program_object
from compiler.pipeline import build_kernel
from compiler.runtime.loader import Execution, LoadedProgram, team_object
from compiler.schedule.source import ScheduleSource
from compiler.target import Target
from compiler.workload.index_operands import index_extents
from compiler.workload.program import STAGGER, STAGGERED_BYTES, Program, Subgraph
from compiler.workload.work import work_of
from luthier.bench.ceilings import aligned


def kernel_subgraphs(program: Program, *, own_layout: bool) -> list[Subgraph]:
    """All Subgraphs; `own_layout`: without the copy at the end, which only hands the result to the interface."""
    last = program.subgraphs[-1]
    moves = all(stage.reducer is None and not stage.operations for stage in last.workload.stages)
    return list(program.subgraphs[: -1 if own_layout and moves and len(program.subgraphs) > 1 else None])


class OwnKernels:
    """The Subgraphs' kernels as one program. Close it after use.

    Attributes:
        schedules: what the source answered, by Subgraph name.
    """

    def __init__(
        self,
        program: Program,
        subgraphs: Sequence[Subgraph],
        target: Target,
        threads: int,
        source: ScheduleSource,
    ) -> None:
        """Build and load; the first kernel's input is random, halos are zero."""
        chosen = choose_schedules(program, target, threads, source)
        self.schedules = {s.name: chosen[s.workload.digest].found.schedule for s in subgraphs}
        kernels = [
            build_kernel(s.workload, chosen[s.workload.digest].found.schedule, target) for s in subgraphs
        ]
        self._arrays: list[np.ndarray] = []
        self._slot_of: dict[str, int] = {}
        self._written = 0
        slots = [self._place(program, s, k) for s, k in zip(subgraphs, kernels, strict=True)]
        works = [work_of(s.workload) for s in subgraphs]
        calls = tuple(c for item in zip(kernels, slots, works, strict=True) for c in phase_calls(*item))
        objects = phase_objects(kernels)
        code = program_object(calls, target)
        loaded = LoadedProgram([*objects.values(), code, team_object(target)])
        self._execution = Execution(loaded, threads, len(self._arrays), own=True)
        self._execution.table[:] = [array.ctypes.data for array in self._arrays]

    def __call__(self, runs: int) -> float:
        """Seconds per run of all kernels."""
        return self._execution.time_ns(runs) / runs * 1e-9

    def close(self) -> None:
        """End the team."""
        self._execution.close()

    def _place(self, program: Program, subgraph: Subgraph, kernel: Kernel) -> tuple[int, ...]:
        """A slot per pointer; an input or output that two kernels share has one."""
        slots = []
        for param in kernel.params:
            value = subgraph.bindings.get(param.name, "")
            shared = param.role in ("input", "output")
            if not shared or value not in self._slot_of:
                content = _content(program, subgraph, param)
                self._written += param.role == "output" and content.nbytes >= STAGGERED_BYTES
                place = STAGGER * self._written if param.role == "output" else 0
                self._arrays.append(aligned(content, place))
                slots.append(len(self._arrays) - 1)
                if shared:
                    self._slot_of[value] = slots[-1]
            else:
                slots.append(self._slot_of[value])
        return tuple(slots)


def _content(program: Program, subgraph: Subgraph, param: Param) -> np.ndarray:
    """What stands in a buffer before the first run."""
    value = subgraph.bindings.get(param.name, "")
    if value in program.constants:
        source = program.constants[value].reshape(subgraph.workload.buffers[param.name].sizes)
        return np.ascontiguousarray(source if param.packing is None else param.packing.apply(source))
    rng, extent = np.random.default_rng(0), index_extents(subgraph.workload).get(param.name)
    if extent is not None:
        return rng.integers(0, extent, param.shape).astype(param.dtype.numpy)
    if param.role == "input":
        return rng.standard_normal(param.shape).astype(param.dtype.numpy)
    return np.zeros(param.shape, param.dtype.numpy)
