"""Loads of floats of three bytes as singles (compiler/three_bytes.py): one load, and one permutation of bytes."""

from __future__ import annotations

from collections.abc import Iterable

from compiler.codegen.emitter import Emitter
from compiler.codegen.types import llvm_type, suffix
from compiler.dtype import DType

_STORED, _COMPUTED = DType.F24.size_bytes, DType.F32.size_bytes


def load_three_bytes(out: Emitter, pointer: str, lanes: int, *, masks: bool) -> str:
    """One element, or a vector of neighbours, in single precision; nothing behind them is touched.

    `masks`: whether the target loads some of a vector's elements as fast as all of them; else LLVM puts a vector of
    bytes together from shorter ones.
    """
    count = max(1, lanes)
    read = count * _STORED
    wide = f"<{count * _COMPUTED} x i8>"
    if masks and read % _COMPUTED == 0:
        kind, bits = llvm_type(DType.I32, count), f"<{count} x i1>"
        function = f"@llvm.masked.load.{suffix(DType.I32, count)}.p0"
        out.declarations.add(f"declare {kind} {function}(ptr, i32 immarg, {bits}, {kind})")
        mask = _listed("i1", (str(n < read // _COMPUTED).lower() for n in range(count)))
        words = out.value(
            f"call {kind} {function}(ptr {pointer}, i32 1, {bits} {mask}, {kind} zeroinitializer)"
        )
        found, source = out.value(f"bitcast {kind} {words} to {wide}"), wide
    else:
        source = f"<{read} x i8>"
        found = out.value(f"load {source}, ptr {pointer}, align 1")
    places = [_STORED * n + max(0, byte - 1) for n in range(count) for byte in range(_COMPUTED)]
    picked = _listed("i32", places)
    whole = out.value(f"shufflevector {source} {found}, {source} poison, <{len(places)} x i32> {picked}")
    return out.value(f"bitcast {wide} {whole} to {llvm_type(DType.F32, lanes)}")


def _listed(kind: str, values: Iterable[int | str]) -> str:
    return "<" + ", ".join(f"{kind} {value}" for value in values) + ">"
