"""Loads of floats of three bytes as singles (compiler/three_bytes.py): one load, and one permutation of bytes.

Permutations of bytes stay within blocks of 16 where a vector has no more than two of them. So each block is loaded
with the 12 bytes that it needs: the first from where they begin, the second so that it ends with them,

    b0 ... b11 b12 ... b23          first: from b0, second: from b8

and both as one vector, from four bytes before b0 to four bytes behind b23, where those are the buffer's as well.
"""

from __future__ import annotations

from collections.abc import Iterable

from compiler.codegen.emitter import Emitter
from compiler.codegen.types import llvm_type, suffix
from compiler.dtype import DType

_STORED, _COMPUTED = DType.F24.size_bytes, DType.F32.size_bytes
_BLOCK, _BESIDE = 16, 4
"""Bytes of a block, and of it those that its four elements leave."""


def load_three_bytes(out: Emitter, pointer: str, lanes: int, *, masks: bool, amid: bool) -> str:
    """One element, or a vector of neighbours, in single precision.

    `masks`: whether the target loads some of a vector's bytes as fast as all of them; else LLVM puts such a vector
    together from shorter ones. `amid`: whether at least four bytes before the first element and behind the last one
    are the buffer's too; else nothing around them is touched.
    """
    count = max(1, lanes)
    read = count * _STORED
    wide = f"<{count * _COMPUTED} x i8>"
    first = [0] * count
    if masks and read % _COMPUTED == 0:
        kind, bits = llvm_type(DType.I32, count), f"<{count} x i1>"
        function = f"@llvm.masked.load.{suffix(DType.I32, count)}.p0"
        out.declarations.add(f"declare {kind} {function}(ptr, i32 immarg, {bits}, {kind})")
        mask = _listed("i1", (str(n < read // _COMPUTED).lower() for n in range(count)))
        words = out.value(
            f"call {kind} {function}(ptr {pointer}, i32 1, {bits} {mask}, {kind} zeroinitializer)"
        )
        found, source = out.value(f"bitcast {kind} {words} to {wide}"), wide
    elif count * _COMPUTED == 2 * _BLOCK:
        found, source = _two_blocks(out, pointer, wide, amid=amid), wide
        begin = (_BESIDE, _BESIDE) if amid else (0, 2 * _BESIDE)
        first = [begin[2 * n // count] for n in range(count)]
    else:
        source = f"<{read} x i8>"
        found = out.value(f"load {source}, ptr {pointer}, align 1")
    places = [first[n] + _STORED * n + max(0, byte - 1) for n in range(count) for byte in range(_COMPUTED)]
    picked = _listed("i32", places)
    whole = out.value(f"shufflevector {source} {found}, {source} poison, <{len(places)} x i32> {picked}")
    return out.value(f"bitcast {wide} {whole} to {llvm_type(DType.F32, lanes)}")


def _two_blocks(out: Emitter, pointer: str, wide: str, *, amid: bool) -> str:
    """Two blocks: with four bytes around them; or the first and behind it the second, which begins four bytes early."""
    if amid:
        before = out.value(f"getelementptr i8, ptr {pointer}, i64 -{_BESIDE}", hint="p")
        return out.value(f"load {wide}, ptr {before}, align 1")
    kind = f"<{_BLOCK} x i8>"
    low = out.value(f"load {kind}, ptr {pointer}, align 1")
    second = out.value(f"getelementptr i8, ptr {pointer}, i64 {_BLOCK - 2 * _BESIDE}", hint="p")
    high = out.value(f"load {kind}, ptr {second}, align 1")
    both = _listed("i32", range(2 * _BLOCK))
    return out.value(f"shufflevector {kind} {low}, {kind} {high}, <{2 * _BLOCK} x i32> {both}")


def _listed(kind: str, values: Iterable[int | str]) -> str:
    return "<" + ", ".join(f"{kind} {value}" for value in values) + ">"
