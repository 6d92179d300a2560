"""The first elements of a vector, to and from memory, where the target has no masked access for their size.

LLVM would turn a masked access of bytes on AVX2 into one access per lane, and a masked store of floats costs some of
its processors dozens of instructions. `active` is known when code is made, so elements go in pieces of 8, 4, 2 and 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from compiler.codegen.emitter import Emitter
from compiler.codegen.types import Value, llvm_type
from compiler.dtype import DType


def load_first(out: Emitter, pointer: str, dtype: DType, lanes: int, active: int) -> str:
    """A vector whose first `active` lanes come from memory; the others are undefined."""
    element, whole = llvm_type(dtype, 0), llvm_type(dtype, lanes)
    vector = "poison"
    for first, count in _pieces(active):
        place = _offset(out, pointer, element, first)
        part = out.value(f"load {_piece(dtype, count)}, ptr {place}, align {dtype.size_bytes}")
        if count == 1:
            vector = out.value(f"insertelement {whole} {vector}, {element} {part}, i64 {first}")
            continue
        kind = llvm_type(dtype, count)
        spread = [str(i - first) if first <= i < first + count else None for i in range(lanes)]
        wide = out.value(f"shufflevector {kind} {part}, {kind} poison, {_mask(spread)}")
        chosen = [str(lanes + i if first <= i < first + count else i) for i in range(lanes)]
        vector = out.value(f"shufflevector {whole} {vector}, {whole} {wide}, {_mask(chosen)}")
    return vector


def store_first(out: Emitter, pointer: str, value: Value, active: int) -> None:
    """Write the first `active` lanes."""
    dtype = value.dtype
    for first, count in _pieces(active):
        place = _offset(out, pointer, llvm_type(dtype, 0), first)
        if count == 1:
            part = out.value(f"extractelement {value.llvm_type} {value.text}, i64 {first}")
        else:
            mask = _mask([str(first + i) for i in range(count)])
            part = out.value(
                f"shufflevector {value.llvm_type} {value.text}, {value.llvm_type} poison, {mask}"
            )
        out.emit(f"store {_piece(dtype, count)} {part}, ptr {place}, align {dtype.size_bytes}")


def _pieces(active: int) -> Iterator[tuple[int, int]]:
    """(first element, number of elements), powers of two from the largest on."""
    first = 0
    while first < active:
        count = 1 << ((active - first).bit_length() - 1)
        yield first, count
        first += count


def _piece(dtype: DType, count: int) -> str:
    return llvm_type(dtype, count if count > 1 else 0)


def _offset(out: Emitter, pointer: str, element: str, first: int) -> str:
    if not first:
        return pointer
    return out.value(f"getelementptr inbounds {element}, ptr {pointer}, i64 {first}", "p")


def _mask(places: Sequence[str | None]) -> str:
    return (
        f"<{len(places)} x i32> <{', '.join(f'i32 {p}' if p is not None else 'i32 poison' for p in places)}>"
    )
