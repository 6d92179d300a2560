"""Linking: kernels, constants and the memory plan of a Program become an Image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from compiler.codegen.kernel import Kernel, Param
from compiler.codegen.llvm import emit_object
from compiler.codegen.program import Call, emit_program
from compiler.graph.ir import TensorType
from compiler.packing import Packing
from compiler.runtime.image import Image, KernelCall, Slot, TaskLookup, TensorSpec
from compiler.runtime.loader import team_object
from compiler.runtime.memory_plan import MemoryPlan, plan_memory
from compiler.target import Target
from compiler.workload.program import Program, Subgraph


def link(
    program: Program, kernels: Sequence[Kernel], target: Target, threads: int, lookups: tuple[TaskLookup, ...]
) -> Image:
    """The Image of a Program; `kernels` has one kernel per Subgraph, in order."""
    linker = _Linker(program, plan_memory(program))
    calls = tuple(linker.call(s, k) for s, k in zip(program.subgraphs, kernels, strict=True))
    raw = tuple(Call(c.symbol, c.slots, k.parallel_extent) for c, k in zip(calls, kernels, strict=True))
    return Image(
        name=program.name,
        inputs=_specs(program.inputs),
        outputs=_specs(program.outputs),
        target=target,
        threads=threads,
        kernels={k.symbol: k for k in kernels},
        program=emit_object(emit_program(raw), target),
        team=team_object(target),
        calls=calls,
        slots=tuple(linker.slots),
        constants=tuple(linker.constants),
        arena_bytes=linker.plan.arena_bytes,
        zeroed_bytes=linker.plan.zeroed_bytes,
        lookups=lookups,
    )


def _specs(types: Mapping[str, TensorType]) -> tuple[TensorSpec, ...]:
    return tuple(TensorSpec(name, kind.sizes, kind.dtype) for name, kind in types.items())


class _Linker:
    def __init__(self, program: Program, plan: MemoryPlan) -> None:
        self._program, self.plan = program, plan
        self.slots: list[Slot] = []
        self.constants: list[np.ndarray] = []
        self._slot_of: dict[Slot, int] = {}
        self._constant_of: dict[tuple[str, tuple[int, ...], Packing | None], int] = {}
        self._inputs, self._outputs = list(program.inputs), list(program.outputs)

    def call(self, subgraph: Subgraph, kernel: Kernel) -> KernelCall:
        """Give each pointer of the kernel a slot."""
        buffers = subgraph.workload.buffers
        slots = tuple(
            self._number(self._slot(subgraph.bindings[p.name], p, buffers[p.name].sizes))
            for p in kernel.params
        )
        return KernelCall(kernel.symbol, slots, subgraph.name)

    def _slot(self, value: str, param: Param, sizes: tuple[int, ...]) -> Slot:
        if value in self._program.constants:
            return Slot("constant", self._constant(value, param, sizes))
        if value in self._outputs:
            return Slot("output", self._outputs.index(value))
        if value in self._inputs:
            return Slot("input", self._inputs.index(value))
        place = self.plan.places[value]
        return Slot("zeroed" if place.zeroed else "arena", place.offset)

    def _constant(self, value: str, param: Param, sizes: tuple[int, ...]) -> int:
        """`sizes`: extents of the operand in the Workload, which may have merged dimensions of the model's tensor."""
        key = (value, param.shape, param.packing)
        if key not in self._constant_of:
            array = self._program.constants[value].reshape(sizes)
            if param.packing is not None:
                array = param.packing.apply(array)
            self._constant_of[key] = len(self.constants)
            self.constants.append(np.ascontiguousarray(array).reshape(param.shape))
        return self._constant_of[key]

    def _number(self, slot: Slot) -> int:
        if slot not in self._slot_of:
            self._slot_of[slot] = len(self.slots)
            self.slots.append(slot)
        return self._slot_of[slot]
