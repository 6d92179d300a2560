"""Within tables: the ranges of a Program's symbols end where an access would leave what it reads.

table[512, 64]; for s0 < n0, s1 < 64: y0[s0, s1] = table[s0, s1]    →    n0 <= 512
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from compiler.errors import CompileError
from compiler.symbol import Symbol
from compiler.workload.ir import Workload
from compiler.workload.program import Program, Subgraph
from compiler.workload.specialise import specialise
from compiler.workload.verify import verify_workload


def within_tables(program: Program, known: Mapping[str, int] | None = None) -> Program:
    """The Program with symbols as large as all of its Workloads allow; the same object where they allow everything.

    `known`: values of all symbols that are allowed; then the symbols are as small as is allowed, too.
    """
    if known is not None:
        lows = {s.name: (_smallest(s, program.subgraphs, known), s.high) for s in program.symbols}
        program = _with_ranges(program, lows)
    return _with_ranges(program, {s.name: (s.low, _largest(s, program.subgraphs)) for s in program.symbols})


def _with_ranges(program: Program, ranges: Mapping[str, tuple[int, int]]) -> Program:
    if all((s.low, s.high) == ranges[s.name] for s in program.symbols):
        return program
    return replace(
        program,
        symbols=tuple(replace(s, low=ranges[s.name][0], high=ranges[s.name][1]) for s in program.symbols),
        subgraphs=tuple(_narrowed(subgraph, ranges) for subgraph in program.subgraphs),
    )


def _narrowed(subgraph: Subgraph, ranges: Mapping[str, tuple[int, int]]) -> Subgraph:
    def narrow(symbol: Symbol) -> Symbol:
        low, high = ranges[subgraph.symbols[symbol.name]]
        return replace(symbol, low=low, high=high)

    symbols = tuple(map(narrow, subgraph.workload.symbols))
    return replace(subgraph, workload=replace(subgraph.workload, symbols=symbols))


def _largest(symbol: Symbol, subgraphs: tuple[Subgraph, ...]) -> int:
    """Where an access is out of bounds for one value, it is for all that are larger."""
    high = symbol.high
    seen: set[str] = set()
    for subgraph in subgraphs:
        workload = subgraph.workload
        name = next((own for own, name in subgraph.symbols.items() if name == symbol.name), None)
        if name is None or workload.digest in seen or _holds(workload, name, high):
            continue
        seen.add(workload.digest)
        low = symbol.low
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if _holds(workload, name, middle) else (low, middle - 1)
    return high


def _smallest(symbol: Symbol, subgraphs: tuple[Subgraph, ...], known: Mapping[str, int]) -> int:
    """Where an access is out of bounds for one value, it is for all that are smaller; the others are as known."""
    low = symbol.low
    for subgraph in subgraphs:
        name = next((own for own, name in subgraph.symbols.items() if name == symbol.name), None)
        if name is None:
            continue
        values = {own: known[theirs] for own, theirs in subgraph.symbols.items()}
        high = low if _allows(subgraph.workload, {**values, name: low}) else known[symbol.name]
        while low < high:
            middle = (low + high) // 2
            within = _allows(subgraph.workload, {**values, name: middle})
            low, high = (low, middle) if within else (middle + 1, high)
    return low


def _holds(workload: Workload, name: str, value: int) -> bool:
    """Whether every access is in bounds for a value of one symbol, and the smallest of all others."""
    return _allows(workload, {s.name: s.low for s in workload.symbols} | {name: value})


def _allows(workload: Workload, values: Mapping[str, int]) -> bool:
    try:
        verify_workload(specialise(workload, values))
    except CompileError:
        return False
    return True
