"""Groups of neighbouring lanes: one vector made of several smaller ones, and taken apart again.

scalars a, b           →  [a a a a b b b b]      two broadcasts and a blend
vectors [p q r s], twice the same  →  [p q r s p q r s]      one load that repeats
vectors [p q r s], [t u v w]       →  [p q r s t u v w]
or woven: [p q r s], [t u v w]     →  [p t q u r v s w]      a lane of each vector in every group
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from compiler.codegen.emitter import Emitter
from compiler.codegen.types import Value

Broadcast = Callable[[Value, int], Value]


def join_groups(out: Emitter, parts: Sequence[Value], groups: int, lanes: int, broadcast: Broadcast) -> Value:
    """The vector whose groups of lanes are the parts; what is missing at the end is undefined.

    Where all parts are one scalar, that scalar.
    """
    first = parts[0]
    if all(part.text == first.text for part in parts):
        if not first.lanes:
            return first
        return _shuffled(out, first, first, [lane % first.lanes for lane in range(lanes)])
    size = lanes // groups
    joined = _wide(out, first, lanes, broadcast)
    for group, part in enumerate(parts[1:], start=1):
        wide = _wide(out, part, lanes, broadcast)
        joined = _shuffled(
            out,
            joined,
            wide,
            [lane if lane // size != group else lanes + _source(part, lane) for lane in range(lanes)],
        )
    return joined


def weave_groups(out: Emitter, members: Sequence[Value]) -> Value:
    """The vector whose groups have a lane of each of the vectors; these are as many as a power of two."""
    if len(members) == 1:
        return members[0]
    # Halves of the members first: the places of each pair in the result are then neighbours.
    half = len(members) // 2
    first, second = weave_groups(out, members[:half]), weave_groups(out, members[half:])
    order = [
        start + lane + member
        for lane in range(0, first.lanes, half)
        for start in (0, first.lanes)
        for member in range(half)
    ]
    return _shuffled(out, first, second, order)


def take_group(out: Emitter, value: Value, groups: int, group: int) -> Value:
    """The lanes of one group."""
    size = value.lanes // groups
    return _shuffled(out, value, value, [group * size + lane for lane in range(size)])


def _source(part: Value, lane: int) -> int:
    """Where a lane of the whole stands in the widened part."""
    return lane % part.lanes if part.lanes else lane


def _wide(out: Emitter, part: Value, lanes: int, broadcast: Broadcast) -> Value:
    if not part.lanes:
        return broadcast(part, lanes)
    return _shuffled(out, part, part, [lane if lane < part.lanes else -1 for lane in range(lanes)])


def _shuffled(out: Emitter, first: Value, second: Value, mask: Sequence[int]) -> Value:
    key = ("groups", first.text, second.text, tuple(mask))
    known = out.remembered(key)
    if known is None:
        order = ", ".join("i32 poison" if m < 0 else f"i32 {m}" for m in mask)
        kind = first.llvm_type
        text = f"shufflevector {kind} {first.text}, {kind} {second.text}, <{len(mask)} x i32> <{order}>"
        known = out.remember(key, out.value(text))
    return Value(known, first.dtype, len(mask))
