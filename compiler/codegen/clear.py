"""Clearing: what a program sets to zero beside the kernels, because no kernel writes it (the border of a value).

void  clear(base, length, stride, begin, end)   pieces begin .. end of a Strip that starts at `base`
"""

from __future__ import annotations

from dataclasses import dataclass

_WIDE = 64


@dataclass(frozen=True, slots=True)
class Strip:
    """`count` pieces of `length` bytes, `stride` bytes apart, the first one at byte `start`."""

    start: int
    length: int
    stride: int
    count: int


@dataclass(frozen=True, slots=True)
class Clear:
    """The Strips of the buffer that a slot of the table points to."""

    slot: int
    strips: tuple[Strip, ...]


CLEAR = f"""define internal void @clear(ptr %base, i64 %length, i64 %stride, i64 %begin, i64 %end) noinline {{
entry:
  %wide = and i64 %length, -{_WIDE}
  %any = icmp slt i64 %begin, %end
  br i1 %any, label %piece, label %done
piece:
  %i = phi i64 [ %begin, %entry ], [ %i.next, %next ]
  %offset = mul i64 %i, %stride
  %start = getelementptr i8, ptr %base, i64 %offset
  br label %vectors
vectors:
  %v = phi i64 [ 0, %piece ], [ %v.next, %vector ]
  %v.more = icmp slt i64 %v, %wide
  br i1 %v.more, label %vector, label %bytes
vector:
  %v.at = getelementptr i8, ptr %start, i64 %v
  store <{_WIDE} x i8> zeroinitializer, ptr %v.at, align 1
  %v.next = add i64 %v, {_WIDE}
  br label %vectors
bytes:
  %b = phi i64 [ %wide, %vectors ], [ %b.next, %byte ]
  %b.more = icmp slt i64 %b, %length
  br i1 %b.more, label %byte, label %next
byte:
  %b.at = getelementptr i8, ptr %start, i64 %b
  store i8 0, ptr %b.at, align 1
  %b.next = add i64 %b, 1
  br label %bytes
next:
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %end
  br i1 %more, label %piece, label %done
done:
  ret void
}}
"""


def emit_clears(number: int, clears: tuple[Clear, ...], share: str, shares: str) -> list[str]:
    """Instructions of a program's Call: a share of so many clears its part of each Strip."""
    lines = []
    for place, clear in enumerate(clears):
        base = f"%c{number}.{place}"
        lines.append(f"  {base}.p = getelementptr ptr, ptr %table, i64 {clear.slot}")
        lines.append(f"  {base} = load ptr, ptr {base}.p")
        for which, strip in enumerate(clear.strips):
            own = f"{base}.{which}"
            lines += [
                f"  {own}.at = getelementptr i8, ptr {base}, i64 {strip.start}",
                f"  {own}.b = mul i64 {share}, {strip.count}",
                f"  {own}.begin = udiv i64 {own}.b, {shares}",
                f"  {own}.e = add i64 {own}.b, {strip.count}",
                f"  {own}.end = udiv i64 {own}.e, {shares}",
                f"  call void @clear(ptr {own}.at, i64 {strip.length}, i64 {strip.stride}, "
                f"i64 {own}.begin, i64 {own}.end)",
            ]
    return lines
