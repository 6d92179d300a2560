"""How many of a vector's first lanes take part, where guards along the lanes say so: a number or a value."""

from __future__ import annotations

from compiler.codegen.emitter import Emitter
from compiler.codegen.linear import Active


def fewer(out: Emitter, lanes: Active, over: int | str) -> Active:
    """The lanes up to the first for which `over`, which grows by one from each to the next, is not negative."""
    if isinstance(over, int):
        room: Active = max(0, -over)
    else:
        out.declarations.add("declare i64 @llvm.smax.i64(i64, i64)")
        negated = out.early(f"sub nsw i64 0, {over}", over)
        room = out.early(f"call i64 @llvm.smax.i64(i64 {negated}, i64 0)", negated)
    if isinstance(room, int) and isinstance(lanes, int):
        return min(room, lanes)
    return least(out, room, lanes) if isinstance(room, str) else least(out, str(lanes), room)


def least(out: Emitter, a: str, b: Active) -> str:
    """The smaller of two numbers of lanes."""
    out.declarations.add("declare i64 @llvm.smin.i64(i64, i64)")
    operands = (a, b) if isinstance(b, str) else (a,)
    return out.early(f"call i64 @llvm.smin.i64(i64 {a}, i64 {b})", *operands)
