"""Split reductions: an axis over what a reshape made one becomes an axis for each of what it was.

sum(r0 < 256) x[a0, r0 // 16, r0 % 16]   →   sum(r0 < 16, r1 < 16) x[a0, r0, r1]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from compiler.graph.ir import Compute
from compiler.graph.rename import with_canonical_axes
from compiler.graph.scalar_rules import simplified
from compiler.index import FloorDiv, Index, Mod
from compiler.scalar import Expr, Load, substitute, walk
from compiler.symbol import Axis, axis


def with_reductions_split(compute: Compute) -> Compute:
    """The Compute with every reduction axis split of which its indices take quotients and remainders.

    The same object where there is none, or where an index would be a sum of what it was split into. Static extents.
    """
    for whole in compute.reduce_axes:
        steps = sorted(_steps(compute.body, whole.name), reverse=True)
        if steps and all(a % b == 0 for a, b in pairwise((whole.size, *steps))):
            compute = _split(compute, whole, [*steps, 1])
    return compute


def _split(compute: Compute, whole: Axis, steps: list[int]) -> Compute:
    parts = [
        axis(f"{whole.name}.{place}", size // step)
        for place, (size, step) in enumerate(zip((whole.size, *steps), steps, strict=False))
    ]
    index = Index.sum((part.name, step) for part, step in zip(parts, steps, strict=True))
    axes = tuple(a for old in compute.reduce_axes for a in (parts if old is whole else [old]))
    body = substitute(compute.body, {whole.name: index})
    found = replace(compute, reduce_axes=axes, body=body)
    found = replace(found, body=simplified(body, found.ranges, {}))
    names = {part.name for part in parts}
    if any(len(index.names() & names) > 1 or not index.is_linear() for index in _indices(found.body)):
        return compute
    return with_canonical_axes(found)


def _steps(body: Expr, name: str) -> set[int]:
    """The divisors of what an axis is divided by, itself or what is left of it by other divisors."""
    found: set[int] = set()
    for index in _indices(body):
        for step, of in _divisions(index):
            if of == {name}:
                found.add(step)
    return found


def _divisions(index: Index) -> Iterator[tuple[int, frozenset[str]]]:
    """Constant divisors in an index, each with the names in what it divides."""
    for atom, _ in index.terms:
        if isinstance(atom, FloorDiv | Mod):
            if isinstance(atom.divisor, int):
                yield atom.divisor, atom.value.names()
            yield from _divisions(atom.value)


def _indices(body: Expr) -> Iterator[Index]:
    return (index for e in walk(body) if isinstance(e, Load) for index in e.indices)
