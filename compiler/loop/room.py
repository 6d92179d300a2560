"""Room behind rows in memory, so that the same place of several parts is not in the same few sets of a first cache.

What sums one place of every part reads and writes lines that lie a whole part from each other. Where that is a large
power of two, or a multiple of one, all of them belong into a few sets, and drive each other out.
"""

from __future__ import annotations

from math import gcd

from compiler.target import LINE_BYTES

SETS, CROWDED = 64, 4
"""Sets of a first cache, in which neighbouring lines take turns; and the largest factor that the lines from a part to
the next may have in common with them."""


def spread_rows(rows: int, row_bytes: int) -> int:
    """Rows of a part with the least room behind them that makes its parts lie apart, as far as rows alone can."""

    def crowded(more: int) -> int:
        return max(gcd((rows + more) * row_bytes, SETS * LINE_BYTES), CROWDED * LINE_BYTES)

    return rows + min(range(SETS), key=crowded)
