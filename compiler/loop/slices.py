"""Slices: the part of a buffer that one iteration of a loop touches, beside those of all others.

for s: for i < 4: t[o, 4 s + i + 8]      a slice of dimension 1, 4 elements each, the first at 8
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from compiler.index import Index
from compiler.scalar import Load


@dataclass(frozen=True, slots=True)
class Slice:
    """`step` elements of a dimension per iteration, those of the first one from `begin` on."""

    dimension: int
    step: int
    begin: Index


def slices(access: Load, var: str, inner: Mapping[str, int]) -> Iterator[Slice]:
    """Dimensions in which iterations of the loop `var` are apart; `inner`: ranges of the names defined inside it."""
    moving = {var, *inner}
    for dimension, index in enumerate(access.indices):
        step = index.coefficient(var)
        others = Index.sum((atom, factor) for atom, factor in index.terms if not isinstance(atom, str))
        if step <= 0 or others.looked_up() or others.names() & moving:
            continue
        nothing = {name: Index.of(0) for name in (var, *inner) if name in index.names()}
        begin = index.substitute(nothing)
        low, high = (index.substitute({var: Index.of(0)}) - begin).bounds(inner)
        if low >= 0 and high < step:
            yield Slice(dimension, step, begin)
