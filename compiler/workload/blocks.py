"""Blocks: one dimension that is read at several places, each of them a block of its own.

    t[b, j], t[b, j + 256], t[b, j + 512], t[b, j + 768]      j < 256, t: [n, 1024]     4 blocks, one after the other
    t[b, 2*j], t[b, 2*j + 1]                                  j < 64,  t: [n, 128]      2 blocks, element by element

No element belongs to two values of j, so that whoever computes t where it is read computes nothing twice: the gates of
a recurrent cell, the halves of a gated unit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from compiler.index import Index, Ranges


@dataclass(frozen=True, slots=True)
class Blocks:
    """`count` blocks along a dimension; `axis` (of `size`) runs inside each.

    Attributes:
        step: distance of neighbours in a block: 1, or `count` where the blocks are interleaved.
    """

    axis: str
    size: int
    count: int
    step: int

    @property
    def distance(self) -> int:
        """Distance between equal places of neighbouring blocks."""
        return self.size if self.step == 1 else 1


def find_blocks(reads: Iterable[Index], extent: int, ranges: Ranges) -> Blocks | None:
    """The blocks that indices of one dimension of `extent` elements read; None where they are not of that form."""
    found: set[Blocks] = set()
    for index in reads:
        axes = [(atom, step) for atom, step in index.terms if isinstance(atom, str)]
        if len(axes) != 1 or len(index.terms) != 1 or axes[0][0] not in ranges:
            return None
        (axis, step), size = axes[0], ranges[axes[0][0]]
        count = extent // size
        blocks = Blocks(axis, size, count, step)
        place, rest = divmod(index.const, blocks.distance)
        if count < 2 or count * size != extent or step not in (1, count) or rest or not 0 <= place < count:
            return None
        found.add(blocks)
    return found.pop() if len(found) == 1 else None
