"""Runs: lanes that are elements of a few short stretches of memory, each of which is loaded as one vector.

lanes 0 .. 7 at 0 1 100 101 200 201 300 301  →  four vectors of two elements, put together by shuffles
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler.codegen.emitter import Emitter

SHORTEST = 2
"""Elements of a run: one by one they are no runs."""


def runs(places: Sequence[int]) -> tuple[list[int], int] | None:
    """Where the runs start, and how long each is; None where they are not equally long, or too short."""
    known = set(places)
    starts = sorted(place for place in known if place - 1 not in known)
    length = len(known) // len(starts)
    whole = all(start + step in known for start in starts for step in range(length))
    return (starts, length) if whole and length >= SHORTEST and len(starts) * length == len(known) else None


def gathered(
    out: Emitter,
    vectors: Sequence[str],
    starts: Sequence[int],
    places: Sequence[int],
    lanes: int,
    scalar: str,
) -> str:
    """The vector of `lanes` whose first lanes are the elements at `places`; `vectors` hold the runs, in order."""
    length = len(set(places)) // len(starts)
    position = {start + step: i * length + step for i, start in enumerate(starts) for step in range(length)}
    held = list(vectors)
    while len(held) > 2:
        both = ", ".join(f"i32 {i}" for i in range(2 * length))
        kind = f"<{length} x {scalar}>"
        held += ["poison"] * (len(held) % 2)
        held = [
            out.value(f"shufflevector {kind} {one}, {kind} {other}, <{2 * length} x i32> <{both}>")
            for one, other in zip(held[::2], held[1::2], strict=True)
        ]
        length *= 2
    kind, (one, *rest) = f"<{length} x {scalar}>", held
    order = [f"i32 {position[place]}" for place in places] + ["i32 poison"] * (lanes - len(places))
    other = rest[0] if rest else "poison"
    return out.value(f"shufflevector {kind} {one}, {kind} {other}, <{lanes} x i32> <{', '.join(order)}>")
