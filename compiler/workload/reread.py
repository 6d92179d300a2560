"""Which inputs of a model are read in vectors again and again, so that it matters where they begin.

    t[i, j] = sum(k) x[i, k] * z[k, j]      lanes along j: each vector of z is read for every few of the rows i

A vector that crosses a line of the cache takes two loads. Arrays of a caller begin anywhere: NumPy aligns to 16 bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from compiler.index import Index
from compiler.scalar import loads
from compiler.symbol import as_size, size_at
from compiler.workload.ir import Operand, Stage, Workload
from compiler.workload.program import ALIGNMENT, Program

OFTEN = 64
"""Points of a sum that read one element, above which a copy that begins where a line does is sooner made than missed. A
tile of so many rows reads each vector about ten times."""


def reread_inputs(program: Program) -> tuple[int, ...]:
    """Numbers of the inputs that some kernel rereads."""
    found = {
        subgraph.bindings[operand]
        for subgraph in program.subgraphs
        for operand in reread_operands(subgraph.workload)
    }
    return tuple(number for number, name in enumerate(program.inputs) if name in found)


def reread_operands(workload: Workload) -> frozenset[str]:
    """Operands of which a sum reads neighbours for neighbours of its result, and each of them often."""
    inputs = {o.name: o for o in workload.operands if not o.constant and _keeps_lines(o)}
    nominal = {symbol.name: symbol.nominal for symbol in workload.symbols}
    return frozenset(
        load.buffer
        for stage in workload.stages
        if stage.reducer == "sum"
        for load in loads(stage.body)
        if load.buffer in inputs
        and _along_lanes(stage, load.indices)
        and _reads(stage, load.indices, nominal) >= OFTEN
    )


def _keeps_lines(operand: Operand) -> bool:
    """Whether its rows begin where lines do if the first of them does."""
    last = operand.shape[-1].constant if operand.shape else None
    return last is not None and last * operand.dtype.size_bytes % ALIGNMENT == 0


def _along_lanes(stage: Stage, indices: tuple[Index, ...]) -> bool:
    """Whether the load moves on by one element with an axis of the result."""
    return any(
        indices[-1].coefficient(axis.name) == 1 and not any(i.coefficient(axis.name) for i in indices[:-1])
        for axis in stage.axes
    )


def _reads(stage: Stage, indices: tuple[Index, ...], sizes: Mapping[str, int]) -> int:
    names = {name for index in indices for name in index.names()}
    return prod(size_at(as_size(axis.extent), sizes) for axis in stage.axes if axis.name not in names)
