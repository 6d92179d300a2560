"""Canonical names of symbols: n0, n1, ... in the order in which a Workload uses them; those that it does not use go."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from compiler.index import Index
from compiler.scalar import Guard, Load, Pick, walk
from compiler.workload.ir import Workload
from compiler.workload.specialise import with_sizes


def name_symbols(workload: Workload) -> tuple[Workload, Mapping[str, str]]:
    """The Workload with its symbols renamed, and for each new name the old one."""
    known = {symbol.name: symbol for symbol in workload.symbols}
    seen = dict.fromkeys(name for index in _indices(workload) for name in sorted(index.names()))
    used = [known[name] for name in seen if name in known]
    own = tuple(replace(symbol, name=f"n{place}") for place, symbol in enumerate(used))
    bindings = {old.name: Index.of(new.name) for old, new in zip(used, own, strict=True)}
    names = {new.name: old.name for old, new in zip(used, own, strict=True)}
    return replace(with_sizes(workload, bindings), symbols=own), names


def _indices(workload: Workload) -> Iterator[Index]:
    for operand in (*workload.operands, *workload.temporaries, *workload.outputs):
        yield from operand.shape
    for stage in workload.stages:
        yield from (axis.extent for axis in (*stage.axes, *stage.reduce_axes))
        yield from (index for result in stage.results for index in result.indices)
        for e in (e for result in stage.results for e in walk(result.body)):
            match e:
                case Load(_, indices):
                    yield from indices
                case Guard(bounds, _, _):
                    yield from (bound.index for bound in bounds)
                case Pick(_, index, _):
                    yield index
                case _:
                    pass
