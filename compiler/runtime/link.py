"""Linking: kernels, constants and the memory plan of a Program become an Image."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count

import numpy as np

from compiler.codegen.clear import Clear
from compiler.codegen.kernel import Kernel, Param
from compiler.codegen.program import program_object
from compiler.graph.ir import TensorType
from compiler.index import Index
from compiler.packing import Packing
from compiler.runtime.aligned import aligned, aligned_empty
from compiler.runtime.constant_pool import ConstantPool
from compiler.runtime.image import Image, KernelCall, Slot, TaskLookup, TensorSpec
from compiler.runtime.loader import team_object
from compiler.runtime.memory_plan import Life, MemoryPlan, lives, plan_memory, scratch_value
from compiler.symbol import as_size
from compiler.target import Target
from compiler.workload.ir import Operand
from compiler.workload.program import Program, Subgraph
from compiler.workload.reread import reread_inputs
from compiler.workload.work import work_of


def link(
    program: Program,
    kernels: Sequence[Kernel],
    target: Target,
    threads: int,
    lookups: tuple[TaskLookup, ...],
    *,
    consume: bool = False,
    pool: ConstantPool | None = None,
) -> Image:
    """The Image of a Program; `kernels` has one kernel per Subgraph, in order.

    `consume`: each constant is taken out of the Program once it is packed, so that they are never in memory twice.
    `pool`: of constants that were packed for others.
    """
    scratch = [_scratch_bytes(*pair) for pair in zip(program.subgraphs, kernels, strict=True)]
    values = lives(program, scratch) if program.symbols else ()
    replaces = [{p.name: p.replaces for p in kernel.params if p.replaces} for kernel in kernels]
    plan = MemoryPlan(0, 0, {}) if program.symbols else plan_memory(program, scratch, replaces)
    linker = _Linker(program, plan, values, pool, consume=consume)
    calls = tuple(linker.call(*item) for item in zip(count(), program.subgraphs, kernels, strict=False))
    raw = tuple(c for call, k in zip(calls, kernels, strict=True) for c in call.phases(k))
    return Image(
        name=program.name,
        inputs=_specs(program.inputs),
        outputs=_specs(program.outputs),
        target=target,
        threads=threads,
        kernels={k.name: k for k in kernels},
        program=program_object(raw, target),
        team=team_object(target),
        calls=calls,
        slots=tuple(linker.slots),
        constants=tuple(linker.constants),
        arena_bytes=linker.plan.arena_bytes,
        zeroed_bytes=linker.plan.zeroed_bytes,
        lookups=lookups,
        symbols=program.symbols,
        lives=values,
        reread=reread_inputs(program),
    )


def _scratch_bytes(subgraph: Subgraph, kernel: Kernel) -> dict[str, Index]:
    names = {own: Index.of(name) for own, name in subgraph.symbols.items()}
    return {p.name: p.extent_bytes.substitute(names) for p in kernel.params if p.role == "scratch"}


def _specs(types: Mapping[str, TensorType]) -> tuple[TensorSpec, ...]:
    return tuple(
        TensorSpec(name, tuple(map(as_size, kind.shape)), kind.dtype) for name, kind in types.items()
    )


class _Linker:
    def __init__(
        self,
        program: Program,
        plan: MemoryPlan,
        values: Sequence[Life],
        pool: ConstantPool | None,
        *,
        consume: bool,
    ) -> None:
        self._program, self.plan, self._pool = program, plan, pool
        self._life_of = {life.value: number for number, life in enumerate(values)}
        self._symbols = [symbol.name for symbol in program.symbols]
        self.slots: list[Slot] = []
        self.constants: list[np.ndarray] = []
        self._slot_of: dict[Slot, int] = {}
        self._constant_of: dict[tuple[str, tuple[int, ...], Packing | None], int] = {}
        self._constants, self._consume = program.constants, consume
        self._uses = Counter(
            v for s in program.subgraphs for v in s.bindings.values() if v in self._constants
        )
        self._inputs, self._outputs = list(program.inputs), list(program.outputs)

    def call(self, number: int, subgraph: Subgraph, kernel: Kernel) -> KernelCall:
        """Give each pointer and symbol of the kernel a slot."""
        buffers = subgraph.workload.buffers
        slots = []
        for param in kernel.params:
            if param.role == "scratch":
                slot = self._placed(scratch_value(number, param.name))
            else:
                slot = self._slot(subgraph.bindings[param.name], param, buffers[param.name])
                start = subgraph.starts.get(param.name, 0) * buffers[param.name].dtype.size_bytes
                slot = replace(slot, where=slot.where + start)
            slots.append(self._number(slot))
        numbers = [self._symbols.index(subgraph.symbols[own]) for own in kernel.symbols]
        slots += [self._number(Slot("symbol", number)) for number in numbers]
        clears = self._clears(subgraph, kernel, slots)
        return KernelCall(kernel.name, tuple(slots), subgraph.name, work_of(subgraph.workload), clears)

    def _clears(self, subgraph: Subgraph, kernel: Kernel, slots: Sequence[int]) -> tuple[Clear, ...]:
        """The borders of the outputs. Those of the model have none: the caller's array is all written."""
        outputs = [(p, slot) for p, slot in zip(kernel.params, slots, strict=False) if p.role == "output"]
        borders = ((slot, self.plan.borders.get(subgraph.bindings[p.name], ())) for p, slot in outputs)
        return tuple(Clear(slot, strips) for slot, strips in borders if strips)

    def _slot(self, value: str, param: Param, operand: Operand) -> Slot:
        if value in self._uses:
            return Slot("constant", self._constant(value, param, operand.sizes))
        if value in self._outputs:
            return Slot("output", self._outputs.index(value))
        if value in self._inputs:
            return Slot("input", self._inputs.index(value))
        return self._placed(self._program.home(value))

    def _placed(self, value: str) -> Slot:
        if value in self._life_of:
            return Slot("planned", self._life_of[value])
        place = self.plan.places[value]
        return Slot("zeroed" if place.zeroed else "arena", place.offset)

    def _constant(self, value: str, param: Param, sizes: tuple[int, ...]) -> int:
        """`sizes`: extents of the operand in the Workload, which may have merged dimensions of the model's tensor."""
        shape = param.sizes()
        key = (value, shape, param.packing)
        if key not in self._constant_of:
            self._constant_of[key] = len(self.constants)
            array = self._constants[value]

            def pack(source: np.ndarray) -> np.ndarray:
                return _packed(source.reshape(sizes), param.packing).reshape(shape)

            known = (
                None if self._pool is None else self._pool.packed(array, (sizes, shape, param.packing), pack)
            )
            self.constants.append(pack(array) if known is None else known)
        self._uses[value] -= 1
        if self._consume and not self._uses[value]:
            del self._constants[value]
        return self._constant_of[key]

    def _number(self, slot: Slot) -> int:
        if slot not in self._slot_of:
            self._slot_of[slot] = len(self.slots)
            self.slots.append(slot)
        return self._slot_of[slot]


def _packed(array: np.ndarray, packing: Packing | None) -> np.ndarray:
    """What a kernel reads: written once, to where it stays."""
    if packing is None:
        return aligned(array)
    packed = aligned_empty(packing.shape, packing.element_type(array.dtype))
    packing.fill(packed, array)
    return packed
