"""Within tables: the ranges of a Program's symbols end where an access would leave what it reads.

table[512, 64]; for s0 < n0, s1 < 64: y0[s0, s1] = table[s0, s1]    →    n0 <= 512
"""

from __future__ import annotations

from dataclasses import replace

from compiler.errors import CompileError
from compiler.symbol import Symbol
from compiler.workload.ir import Workload
from compiler.workload.program import Program, Subgraph
from compiler.workload.specialise import specialise
from compiler.workload.verify import verify_workload


def within_tables(program: Program) -> Program:
    """The Program with symbols as large as all of its Workloads allow; the same object where they allow everything."""
    symbols = tuple(replace(s, high=_largest(s, program.subgraphs)) for s in program.symbols)
    if symbols == program.symbols:
        return program
    highs = {s.name: s.high for s in symbols}
    return replace(
        program,
        symbols=symbols,
        subgraphs=tuple(_narrowed(subgraph, highs) for subgraph in program.subgraphs),
    )


def _narrowed(subgraph: Subgraph, highs: dict[str, int]) -> Subgraph:
    own = subgraph.workload.symbols
    symbols = tuple(replace(s, high=highs[subgraph.symbols[s.name]]) for s in own)
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


def _holds(workload: Workload, name: str, value: int) -> bool:
    """Whether every access is in bounds for a value of one symbol, and the smallest of all others."""
    try:
        verify_workload(specialise(workload, {s.name: s.low for s in workload.symbols} | {name: value}))
    except CompileError:
        return False
    return True
