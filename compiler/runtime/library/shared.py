"""A linker for what we emit: object files without state become a shared library for Linux.

segment     sections                                                        access
0           .hash .dynsym .dynstr .rela.dyn .rodata                         read
1           .text (with a stub per function of the C library)               read, execute
2           .dynamic .got (addresses, filled in by the dynamic loader)      read, write until they are relocated
3           .constants: the model's, at the file's end, loaded as they are read

Offsets in the file are addresses. Only the names in `exports` can be seen from outside, so that several libraries get
on in one process. Names that no object defines must be of the C library or its mathematics; they bind without a
version, so that the library runs with any of them. Layouts are those of the System V ABI.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from compiler.errors import CompileError
from compiler.runtime.library.machines import Machine
from compiler.runtime.library.objects import (
    FILE_HEADER,
    RELOCATION,
    SECTION_HEADER,
    SYMBOL,
    ObjectFile,
    Part,
    Relocation,
)

CONSTANTS = "constants"
"""Symbol of the first byte of the constants."""

_LIBC = (
    "aligned_alloc clock_gettime free getauxval memcpy memmove memset pthread_create pthread_getaffinity_np "
    "pthread_join pthread_self pthread_setaffinity_np sched_getcpu sched_yield syscall"
)
_LIBM = (
    "acos asin atan atan2 ceil cos cosh erf exp exp2 floor fma fmax fmin fmod log log10 log2 nearbyint pow rint round "
    "roundeven sin sinh sqrt tan tanh trunc"
)
_NEEDED = ("libc.so.6", "libm.so.6")
_PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
_READ, _WRITE, _EXECUTE = 4, 2, 1
_LOAD, _DYNAMIC, _STACK, _RELRO = 1, 2, 0x6474E551, 0x6474E552
_SEGMENTS = 7
_TEXT_SECTION = 6
"""Its row in the table of sections."""


@dataclass(frozen=True, slots=True)
class SharedLibrary:
    """A file in three pieces: `head`, then `constants_bytes` of constants, then `tail`."""

    head: bytes
    constants_bytes: int
    tail: bytes


def link_library(
    objects: Sequence[ObjectFile], machine: Machine, name: str, exports: Sequence[str], constants_bytes: int
) -> SharedLibrary:
    """Link; `name` is the library's own. Raises CompileError where a symbol is missing or defined twice."""
    return _Linker(objects, machine, name, exports, constants_bytes).link()


@dataclass(frozen=True, slots=True)
class _Section:
    """A row of the table of sections, which linkers read where dynamic loaders do not."""

    name: str
    kind: int
    flags: int
    address: int
    size: int
    link: int = 0
    info: int = 0
    entry: int = 0
    alignment: int = 1


@dataclass
class _Strings:
    """A table of names, each of which is found by its offset."""

    data: bytearray = field(default_factory=lambda: bytearray(1))

    def add(self, text: str) -> int:
        at = len(self.data)
        self.data += text.encode() + b"\0"
        return at


class _Linker:
    def __init__(
        self,
        objects: Sequence[ObjectFile],
        machine: Machine,
        name: str,
        exports: Sequence[str],
        constants_bytes: int,
    ) -> None:
        self._objects, self._machine, self._exports = objects, machine, exports
        self._constants_bytes = constants_bytes
        self._defined = _definitions(objects)
        relocations = [r for o in objects for p in o.parts for r in p.relocations]
        self._imports = sorted(
            {r.symbol for r in relocations if isinstance(r.symbol, str)} - self._defined.keys() - {CONSTANTS}
        )
        _check_imports(self._imports, exports, self._defined)
        through = {r.symbol for r in relocations if machine.uses_table(r.kind) and isinstance(r.symbol, str)}
        self._entries = sorted(through | set(self._imports))
        """Symbols with an entry in the table of addresses."""
        self._strings = _Strings()
        self._needed = [self._strings.add(n) for n in _NEEDED]
        self._soname = self._strings.add(name)
        self._symbol_names = [self._strings.add(n) for n in (*self._imports, *exports)]
        self._place()

    def _place(self) -> None:
        """Give everything its address."""
        page, symbols = self._machine.page, 1 + len(self._symbol_names)
        at = FILE_HEADER.size + _SEGMENTS * _PROGRAM_HEADER.size
        self._hash = at
        self._dynsym = _up(at + 4 * (3 + symbols), 8)
        self._dynstr = self._dynsym + SYMBOL.size * symbols
        self._rela = _up(self._dynstr + len(self._strings.data), 8)
        self._rodata = _up(self._rela + RELOCATION.size * len(self._entries), 64)
        self._addresses: dict[tuple[int, int], int] = {}
        self._read_end = self._place_parts("rodata", self._rodata)
        self._text = _up(self._read_end, page)
        self._stubs = _up(self._place_parts("text", self._text), 16)
        self._text_end = self._stubs + self._machine.stub_bytes * len(self._imports)
        self._dynamic = _up(self._text_end, page)
        self._got = self._dynamic + 16 * len(self._dynamic_rows())
        self._got_end = self._got + 8 * len(self._entries)
        self._constants = _up(self._got_end, page)
        self._sections_at = _up(self._constants + self._constants_bytes, 8)

    def _place_parts(self, kind: str, at: int) -> int:
        for number, part in self._parts(kind):
            at = _up(at, part.alignment)
            self._addresses[number] = at
            at += len(part.data)
        return at

    def _parts(self, kind: str) -> list[tuple[tuple[int, int], Part]]:
        return [
            ((n, place), part)
            for n, o in enumerate(self._objects)
            for place, part in enumerate(o.parts)
            if part.kind == kind
        ]

    def link(self) -> SharedLibrary:
        """The pieces of the file."""
        head = bytearray(self._constants)
        pieces = {
            0: self._file_header() + self._program_headers(),
            self._hash: self._hash_table(),
            self._dynsym: self._symbol_table(),
            self._dynstr: self._strings.data,
            self._rela: self._dynamic_relocations(),
            self._dynamic: b"".join(struct.pack("<QQ", *row) for row in self._dynamic_rows()),
        }
        for kind in ("rodata", "text"):
            for number, part in self._parts(kind):
                pieces[self._addresses[number]] = self._patched(number, part)
        for place, name in enumerate(self._imports):
            stub = self._stubs + place * self._machine.stub_bytes
            pieces[stub] = self._machine.stub(stub, self._entry(name))
        for at, piece in pieces.items():
            head[at : at + len(piece)] = piece
        padding = self._sections_at - self._constants - self._constants_bytes
        return SharedLibrary(bytes(head), self._constants_bytes, bytes(padding) + self._section_table())

    def _patched(self, number: tuple[int, int], part: Part) -> bytes:
        code = bytearray(part.data)
        base = self._addresses[number]
        for r in part.relocations:
            value = self._value(number[0], r) + r.addend
            self._machine.patch(code, r.offset, r.kind, base + r.offset, value)
        return bytes(code)

    def _value(self, owner: int, relocation: Relocation) -> int:
        symbol = relocation.symbol
        if isinstance(symbol, tuple):
            if self._machine.uses_table(relocation.kind):
                msg = "a local symbol is looked up in the table of addresses; please report the model"
                raise CompileError(msg)
            return self._addresses[owner, symbol[0]] + symbol[1]
        if self._machine.uses_table(relocation.kind):
            return self._entry(symbol)
        if symbol in self._imports:
            return self._stubs + self._imports.index(symbol) * self._machine.stub_bytes
        return self._address(symbol)

    def _entry(self, symbol: str) -> int:
        return self._got + 8 * self._entries.index(symbol)

    def _address(self, symbol: str) -> int:
        if symbol == CONSTANTS:
            return self._constants
        owner, place, offset = self._defined[symbol]
        return self._addresses[owner, place] + offset

    def _file_header(self) -> bytes:
        ident = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
        sizes = (FILE_HEADER.size, _PROGRAM_HEADER.size, _SEGMENTS, SECTION_HEADER.size)
        sections = len(self._sections())
        at = (0, FILE_HEADER.size, self._sections_at, 0)
        return FILE_HEADER.pack(ident, 3, self._machine.number, 1, *at, *sizes, sections, sections - 1)

    def _program_headers(self) -> bytes:
        page = self._machine.page
        rows = [
            (_LOAD, _READ, 0, self._read_end, page),
            (_LOAD, _READ | _EXECUTE, self._text, self._text_end, page),
            (_LOAD, _READ | _WRITE, self._dynamic, self._constants, page),
            (_LOAD, _READ, self._constants, self._constants + self._constants_bytes, page),
            (_DYNAMIC, _READ | _WRITE, self._dynamic, self._got, 8),
            (_RELRO, _READ, self._dynamic, self._constants, 1),
            (_STACK, _READ | _WRITE, 0, 0, 16),
        ]
        return b"".join(
            _PROGRAM_HEADER.pack(kind, access, start, start, start, end - start, end - start, alignment)
            for kind, access, start, end, alignment in rows
        )

    def _hash_table(self) -> bytes:
        """One bucket, and a chain through all symbols: there are about ten."""
        count = 1 + len(self._symbol_names)
        return struct.pack(f"<{3 + count}I", 1, count, count - 1, 0, *range(count - 1))

    def _symbol_table(self) -> bytes:
        rows = [SYMBOL.pack(0, 0, 0, 0, 0, 0)]
        for at, name in zip(self._symbol_names, (*self._imports, *self._exports), strict=True):
            place = (_TEXT_SECTION, self._address(name)) if name in self._exports else (0, 0)
            rows.append(SYMBOL.pack(at, 1 << 4 | 2, 0, *place, 0))  # global, function
        return b"".join(rows)

    def _dynamic_relocations(self) -> bytes:
        rows = []
        for name in self._entries:
            kind, symbol, addend = self._machine.relative_entry, 0, 0
            if name in self._imports:
                kind, symbol = self._machine.global_entry, 1 + self._imports.index(name)
            else:
                addend = self._address(name)
            rows.append(RELOCATION.pack(self._entry(name), symbol << 32 | kind, addend))
        return b"".join(rows)

    def _dynamic_rows(self) -> list[tuple[int, int]]:
        return [
            *((1, at) for at in self._needed),
            (14, self._soname),
            (4, self._hash),
            (5, self._dynstr),
            (6, self._dynsym),
            (10, len(self._strings.data)),
            (11, SYMBOL.size),
            (7, self._rela),
            (8, RELOCATION.size * len(self._entries)),
            (9, RELOCATION.size),
            (30, 8),  # FLAGS: BIND_NOW
            (0, 0),
        ]

    def _sections(self) -> list[_Section]:
        symbols = 1 + len(self._symbol_names)
        return [
            _Section("", 0, 0, 0, 0, alignment=0),
            _Section(".hash", 5, 2, self._hash, 4 * (3 + symbols), 2, entry=4, alignment=4),
            _Section(".dynsym", 11, 2, self._dynsym, SYMBOL.size * symbols, 3, 1, SYMBOL.size, 8),
            _Section(".dynstr", 3, 2, self._dynstr, len(self._strings.data)),
            _Section(
                ".rela.dyn", 4, 2, self._rela, RELOCATION.size * len(self._entries), 2, 0, RELOCATION.size, 8
            ),
            _Section(".rodata", 1, 2, self._rodata, self._read_end - self._rodata, alignment=64),
            _Section(".text", 1, 6, self._text, self._text_end - self._text, alignment=64),
            _Section(".dynamic", 6, 3, self._dynamic, self._got - self._dynamic, 3, 0, 16, 8),
            _Section(".got", 1, 3, self._got, self._got_end - self._got, entry=8, alignment=8),
            _Section(".constants", 1, 2, self._constants, self._constants_bytes, alignment=64),
            _Section(".shstrtab", 3, 0, 0, 0),
        ]

    def _section_table(self) -> bytes:
        names, rows, sections = _Strings(), b"", self._sections()
        starts = [names.add(s.name) if s.name else 0 for s in sections]
        end = self._sections_at + SECTION_HEADER.size * len(sections)
        for start, s in zip(starts, sections, strict=True):
            place, size = (end, len(names.data)) if s is sections[-1] else (s.address, s.size)
            rows += SECTION_HEADER.pack(
                start, s.kind, s.flags, s.address, place, size, s.link, s.info, s.alignment, s.entry
            )
        return rows + bytes(names.data)


def _definitions(objects: Sequence[ObjectFile]) -> dict[str, tuple[int, int, int]]:
    """Object, part and offset of each global symbol."""
    found: dict[str, tuple[int, int, int]] = {}
    for number, item in enumerate(objects):
        for name, place in item.symbols.items():
            if name in found or name == CONSTANTS:
                msg = f"symbol {name} is defined twice; please report the model"
                raise CompileError(msg)
            found[name] = (number, *place)
    return found


def _check_imports(imports: Sequence[str], exports: Sequence[str], defined: Mapping[str, object]) -> None:
    known = {*_LIBC.split(), *_LIBM.split(), *(f"{name}f" for name in _LIBM.split())}
    missing = [n for n in imports if n not in known] + [n for n in exports if n not in defined]
    if missing:
        msg = f"no object defines {missing[0]}, and it is not of the C library; please report the model"
        raise CompileError(msg)


def _up(value: int, alignment: int) -> int:
    return -(-value // alignment) * alignment
