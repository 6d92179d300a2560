"""Text of a LoopNest: stable, one statement a line, for goldens, dumps and `luthier inspect`."""

from __future__ import annotations

from typing import assert_never

from compiler.loop.ir import Block, For, If, Let, LoopNest, Stmt, Store
from compiler.scalar import expr_text


def print_nest(nest: LoopNest) -> str:
    """The whole nest: its buffers, then its statements."""
    lines = [f"nest {nest.name}"]
    lines += [f"  symbol {s.name} in {s.low}..{s.high}" for s in nest.symbols]
    for b in nest.buffers:
        role = b.role or b.scope
        packed = f" packed from {list(b.packing.coefficients)}" if b.packing is not None else ""
        packed += f" at {list(b.packing.start)}" if b.packing is not None and b.packing.start else ""
        lines.append(f"  {role} {b.name}: {b.dtype.value}[{', '.join(map(str, b.shape))}]{packed}")
    return "\n".join(lines + _lines(nest.body, 1)) + "\n"


def _lines(stmt: Stmt, depth: int) -> list[str]:
    pad = "  " * depth
    match stmt:
        case For(var, extent, kind, body):
            return [f"{pad}for {var} in 0..{extent} {kind.value}:", *_lines(body, depth + 1)]
        case Let(var, value, extent, body):
            return [f"{pad}let {var} = {value} in 0..{extent}", *_lines(body, depth)]
        case If(c, then, otherwise):
            head = f"{pad}if {c.low} <= {c.index} < {c.high}:"
            return [head, *_lines(then, depth + 1), f"{pad}else:", *_lines(otherwise, depth + 1)]
        case Store(buffer, indices, value):
            return [f"{pad}{buffer}[{', '.join(map(str, indices))}] = {expr_text(value)}"]
        case Block(statements):
            return [line for s in statements for line in _lines(s, depth)]
        case _:
            assert_never(stmt)
