"""Picking every n-th element out of whole vectors, by two-source shuffles.

    elements 0 2 4 6 | 8 10 12 14  of  [0 1 2 3 4 5 6 7] and [7 8 9 10 11 12 13 14]     lanes 8, step 2

The last vector may start early, so that nothing past the last element that is needed is read.
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler.codegen.emitter import Emitter


def vector_starts(lanes: int, last: int, *, early: bool) -> list[int]:
    """Where the vectors start that hold the elements 0 .. last; `early`: the last one ends at `last`."""
    count = -(-(last + 1) // lanes)
    return [min(j * lanes, last - lanes + 1) if early else j * lanes for j in range(count)]


def pick_lanes(
    out: Emitter, vectors: Sequence[str], starts: Sequence[int], step: int, lanes: int, kind: str
) -> str:
    """The vector whose lane l is element l * step; `vectors` of LLVM type `kind` hold the elements from `starts` on."""
    if step == 1:
        return vectors[0]
    source = [min(lane * step // lanes, len(vectors) - 1) for lane in range(lanes)]
    place = [lane * step - starts[j] for lane, j in enumerate(source)]
    result, done = vectors[0], [p if j == 0 else -1 for p, j in zip(place, source, strict=True)]
    if len(vectors) == 1:
        return _shuffle(out, kind, result, "poison", [p if p < lanes else -1 for p in done])
    for number, vector in enumerate(vectors[1:], start=1):
        mask = [
            lanes + p if j == number and p < lanes else d for p, j, d in zip(place, source, done, strict=True)
        ]
        result = _shuffle(out, kind, result, vector, mask)
        done = [lane if m >= 0 else -1 for lane, m in enumerate(mask)]
    return result


def _shuffle(out: Emitter, kind: str, first: str, second: str, mask: Sequence[int]) -> str:
    order = ", ".join("i32 poison" if m < 0 else f"i32 {m}" for m in mask)
    return out.value(f"shufflevector {kind} {first}, {kind} {second}, <{len(mask)} x i32> <{order}>")
