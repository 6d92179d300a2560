"""Transposing a square block of vectors in registers.

A load whose lanes are far apart would take one scalar load per lane. Where the loop along which memory is contiguous is
unrolled at least as far as a vector is long, the block of rows is read by whole vectors instead and transposed by
log2(n) rounds of two-source shuffles: round b exchanges bit b of the row's number with bit b of the element's.
"""

from __future__ import annotations

from compiler.codegen.emitter import Emitter


def transpose(out: Emitter, rows: list[str], vector: str) -> list[str]:
    """The columns of n vectors of n elements; n is a power of two, `vector` their LLVM type."""
    n = len(rows)
    bit = 1
    while bit < n:
        following = list(rows)
        for low in (r for r in range(n) if not r & bit):
            high = low | bit
            # Element e of the pair: the low row's elements are 0 .. n - 1, the high row's n .. 2n - 1.
            first = [e if not e & bit else n + (e ^ bit) for e in range(n)]
            second = [(e | bit) if not e & bit else n + e for e in range(n)]
            pair = f"{vector} {rows[low]}, {vector} {rows[high]}"
            following[low] = _shuffle(out, pair, first)
            following[high] = _shuffle(out, pair, second)
        rows, bit = following, bit * 2
    return rows


def _shuffle(out: Emitter, pair: str, mask: list[int]) -> str:
    elements = ", ".join(f"i32 {place}" for place in mask)
    return out.value(f"shufflevector {pair}, <{len(mask)} x i32> <{elements}>")
