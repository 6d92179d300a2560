"""Which operands and inputs hold indices, so that whoever makes values for them stays in range."""

from __future__ import annotations

from compiler.index import Index
from compiler.scalar import Lookup, loads, walk
from compiler.symbol import as_size, size_at
from compiler.workload.ir import Workload
from compiler.workload.program import Program


def index_extents(workload: Workload) -> dict[str, int]:
    """By operand: its elements are looked up in dimensions of at least so many elements."""
    integers = {operand.name for operand in workload.operands if operand.dtype.is_integer}
    smallest = {symbol.name: symbol.low for symbol in workload.symbols}
    found: dict[str, int] = {}
    for stage in workload.stages:
        for e in (e for result in stage.results for e in walk(result.body)):
            if not isinstance(e, Lookup):
                continue
            for load in loads(e.value):
                if load.buffer in integers:
                    extent = size_at(as_size(Index.of(e.found.extent)), smallest)
                    found[load.buffer] = min(extent, found.get(load.buffer, extent))
    return found


def input_index_extents(program: Program) -> dict[str, int]:
    """The same for the inputs of a model; what computes something of an input before it is an index is not seen."""
    found: dict[str, int] = {}
    for subgraph in program.subgraphs:
        for operand, extent in index_extents(subgraph.workload).items():
            value = subgraph.bindings[operand]
            if value in program.inputs:
                found[value] = min(extent, found.get(value, extent))
    return found
