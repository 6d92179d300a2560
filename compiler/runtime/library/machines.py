"""What a linker must know of an instruction set: its relocations, and how it jumps through a table of addresses.

Numbers and formulas: System V ABI, AMD64 supplement (4.4 Relocation Types); ELF for the Arm 64-bit Architecture (5.7).
S is the symbol's address, A the addend, P the place, G the address of the symbol's entry in the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from compiler.errors import CompileError


class Machine(Protocol):
    """One instruction set."""

    @property
    def number(self) -> int:
        """In the file's header."""
        ...

    @property
    def page(self) -> int:
        """Bytes of the largest page that a system may use."""
        ...

    @property
    def global_entry(self) -> int:
        """The dynamic loader's relocation of an entry that holds a symbol's address."""
        ...

    @property
    def relative_entry(self) -> int:
        """That of an entry that holds the library's address plus a number."""
        ...

    @property
    def stub_bytes(self) -> int:
        """Size of a stub."""
        ...

    def uses_table(self, kind: int) -> bool:
        """Whether a relocation means the symbol's entry in the table of addresses instead of the symbol."""
        ...

    def patch(self, code: bytearray, at: int, kind: int, place: int, value: int) -> None:
        """Write S + A (or G + A) = `value` into the code at offset `at`, which has the address `place`."""
        ...

    def stub(self, place: int, entry: int) -> bytes:
        """Code at address `place` that jumps to what the table's entry at address `entry` holds."""
        ...


@dataclass(frozen=True)
class _X86:
    number: int = 62
    page: int = 4096
    global_entry: int = 6
    relative_entry: int = 8
    stub_bytes: int = 8

    def uses_table(self, kind: int) -> bool:
        return kind in (9, 41, 42)  # GOTPCREL, GOTPCRELX, REX_GOTPCRELX

    def patch(self, code: bytearray, at: int, kind: int, place: int, value: int) -> None:
        if kind not in (2, 4, 9, 41, 42):  # PC32, PLT32: S + A - P
            raise _unknown(kind)
        code[at : at + 4] = _signed(value - place, 32).to_bytes(4, "little")

    def stub(self, place: int, entry: int) -> bytes:
        return (
            b"\xff\x25" + _signed(entry - place - 6, 32).to_bytes(4, "little") + b"\x90\x90"
        )  # jmp *entry(%rip)


_SCALES = {277: 0, 278: 0, 284: 1, 285: 2, 286: 3, 299: 4, 312: 3}
"""Low 12 bits of an address, in units of 1 << so much: ADD, LDST8 to LDST128, and the table's LD64_GOT_LO12_NC."""
_PAGES = (275, 276, 311)
"""ADR_PREL_PG_HI21 and its form without a check, ADR_GOT_PAGE: Page(S + A) - Page(P)."""
_CALLS = (282, 283)
"""JUMP26, CALL26: S + A - P."""
_PREL32 = 261


@dataclass(frozen=True)
class _Arm:
    number: int = 183
    page: int = 65536
    global_entry: int = 1025
    relative_entry: int = 1027
    stub_bytes: int = 12

    def uses_table(self, kind: int) -> bool:
        return kind in (311, 312)

    def patch(self, code: bytearray, at: int, kind: int, place: int, value: int) -> None:
        word = int.from_bytes(code[at : at + 4], "little")
        if kind == _PREL32:
            word = _signed(value - place, 32)
        elif kind in _CALLS:
            word |= _signed((value - place) >> 2, 26)
        elif kind in _PAGES:
            pages = _signed((value >> 12) - (place >> 12), 21)
            word |= (pages & 3) << 29 | (pages >> 2) << 5
        elif kind in _SCALES:
            word |= ((value & 0xFFF) >> _SCALES[kind]) << 10
        else:
            raise _unknown(kind)
        code[at : at + 4] = word.to_bytes(4, "little")

    def stub(self, place: int, entry: int) -> bytes:
        # adrp x16, entry; ldr x17, [x16, :lo12:entry]; br x17
        code = bytearray(b"".join(n.to_bytes(4, "little") for n in (0x90000010, 0xF9400211, 0xD61F0220)))
        self.patch(code, 0, 311, place, entry)
        self.patch(code, 4, 312, place + 4, entry)
        return bytes(code)


MACHINES: Mapping[str, Machine] = {"x86_64": _X86(), "aarch64": _Arm()}
"""By the first word of a Target's triple."""


def _signed(value: int, bits: int) -> int:
    """Two's complement in so many bits; raises CompileError where it does not fit."""
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        msg = f"the library's code is too large: an address is {value} bytes away; please report the model"
        raise CompileError(msg)
    return value & (1 << bits) - 1


def _unknown(kind: int) -> CompileError:
    return CompileError(
        f"an object file has relocation {kind}, which is not known here; please report the model"
    )
