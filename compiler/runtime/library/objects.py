"""Reading relocatable object files (ELF, 64 bits, little-endian), as LLVM writes them for Linux.

Layouts are those of the System V ABI, chapters "Object Files" and "Symbol Table".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Literal

from compiler.errors import CompileError

SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
RELOCATION = struct.Struct("<QQq")
FILE_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")

_RELOCATABLE = 1
_SYMTAB, _RELA, _NOTE, _NOBITS, _REL, _X86_UNWIND = 2, 4, 7, 8, 9, 0x70000001
_WRITE, _ALLOC, _EXECUTE = 1, 2, 4
_UNDEFINED, _RESERVED = 0, 0xFF00
_LOCAL = 0

Kind = Literal["text", "rodata"]


@dataclass(frozen=True, slots=True)
class Relocation:
    """A place in a Part that depends on where a symbol lands: a number of the ABI, and what is added."""

    offset: int
    kind: int
    symbol: str | tuple[int, int]
    """A global symbol by its name, a local one as a Part's number in its object and an offset in it."""
    addend: int


@dataclass(frozen=True, slots=True)
class Part:
    """A section that is in memory when the program runs."""

    kind: Kind
    data: bytes
    alignment: int
    relocations: tuple[Relocation, ...] = ()


@dataclass(frozen=True, slots=True)
class ObjectFile:
    """The parts of an object file, and where in them its global symbols are."""

    parts: tuple[Part, ...]
    symbols: dict[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class _Header:
    name: str
    kind: int
    flags: int
    data: bytes
    link: int
    info: int
    alignment: int

    @property
    def is_part(self) -> bool:
        """Tables to unwind the stack are left out: nothing here throws."""
        unwinding = self.kind == _X86_UNWIND or self.name.startswith(".eh_frame")
        return bool(self.flags & _ALLOC) and self.kind != _NOTE and not unwinding


def read_object(code: bytes) -> ObjectFile:
    """Read an object file; raises CompileError where it is none, or holds what a shared library may not."""
    try:
        return _read(code)
    except (struct.error, IndexError, UnicodeDecodeError, ValueError) as error:
        msg = f"an object file is damaged ({error}); compile the model again"
        raise CompileError(msg) from error


def _read(code: bytes) -> ObjectFile:
    ident, kind, *_, offset, _, _, _, _, _, count, names = FILE_HEADER.unpack_from(code)
    if ident[:6] != b"\x7fELF\x02\x01" or kind != _RELOCATABLE:
        msg = "what should be an object file for Linux is something else; compile the model again"
        raise CompileError(msg)
    headers = _headers(code, offset, count, names)
    numbers = {place: number for number, place in enumerate(i for i, h in enumerate(headers) if h.is_part)}
    table = next(h for h in headers if h.kind == _SYMTAB)
    text = headers[table.link].data
    symbols: dict[str, tuple[int, int]] = {}
    by_index: list[str | tuple[int, int]] = []
    for name_at, info, _, section, value, _ in SYMBOL.iter_unpack(table.data):
        name = _string(text, name_at)
        place = (numbers[section], value) if section in numbers else None
        if place is not None and info >> 4 != _LOCAL:
            symbols[name] = place
        local = place is not None and info >> 4 == _LOCAL
        by_index.append(place if local and place is not None else name)
        if section >= _RESERVED and info >> 4 != _LOCAL:
            msg = f"symbol {name} of an object file has no section; please report the model"
            raise CompileError(msg)
    found: dict[int, list[Relocation]] = {}
    for header in headers:
        if header.kind == _REL and header.info in numbers:
            msg = f"section {header.name} of an object file is of another machine; please report the model"
            raise CompileError(msg)
        if header.kind == _RELA and header.info in numbers:
            found[header.info] = [
                Relocation(at, what & 0xFFFFFFFF, by_index[what >> 32], addend)
                for at, what, addend in RELOCATION.iter_unpack(header.data)
            ]
    return ObjectFile(tuple(_part(headers[place], found.get(place, [])) for place in numbers), symbols)


def _headers(code: bytes, offset: int, count: int, names: int) -> list[_Header]:
    rows = [SECTION_HEADER.unpack_from(code, offset + n * SECTION_HEADER.size) for n in range(count)]
    text = code[rows[names][4] : rows[names][4] + rows[names][5]]
    return [
        _Header(
            _string(text, name),
            kind,
            flags,
            b"" if kind == _NOBITS else code[at : at + size],
            link,
            info,
            align,
        )
        for name, kind, flags, _, at, size, link, info, align, _ in rows
    ]


def _part(header: _Header, relocations: list[Relocation]) -> Part:
    if header.flags & _WRITE:
        msg = f"section {header.name} of an object file can be written, and contexts would share it"
        raise CompileError(msg)
    kind: Kind = "text" if header.flags & _EXECUTE else "rodata"
    return Part(kind, header.data, max(1, header.alignment), tuple(relocations))


def _string(table: bytes, at: int) -> str:
    return table[at : table.index(b"\0", at)].decode()
