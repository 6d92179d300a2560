"""The wire format of an ONNX file, as far as it takes to leave the weights out of the parsed message.

    ModelProto.graph (7) → GraphProto.initializer (5) → TensorProto.raw_data (9)

Protobuf would hold a file of weights twice while it parses it, and hand each tensor out as one more copy. Here the data
of large initialisers stays where it is, and what is left is small. Fields that occur several times count as protobuf
counts them: messages are merged, of bytes the last one stands.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from onnx import TensorProto

_GRAPH, _INITIALIZER, _RAW_DATA, _DATA_TYPE = 7, 5, 9, 2
_VARINT, _BYTES = 0, 2
_FIXED_BYTES = {1: 8, 5: 4}
"""Bytes of a field of fixed length, by its kind. Groups, an older way to nest messages, ONNX never had."""
_LONGEST_VARINT = 10
_LARGE_BYTES = 4096
"""From here on the data of an initialiser is left out."""
_PLAIN_TYPES = frozenset(
    (
        *(TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BOOL),
        *(TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64),
        *(TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64),
    )
)
"""Element types whose data is an array as it lies in the file."""


class MalformedError(ValueError):
    """Not the wire format, or cut off."""


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes of the file."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class LightModel:
    """A serialised ModelProto without large data.

    Attributes:
        large: where the data of an initialiser lies, by its place in the merged graph.
    """

    model: bytes
    large: dict[int, Span]


def without_large_data(file: BinaryIO, size: int) -> LightModel:
    """Take a file of so many bytes apart; raises MalformedError."""
    scan = _Scan(file)
    pieces = scan.model(size)
    return LightModel(b"".join(p if isinstance(p, bytes) else scan.read(p) for p in pieces), scan.large)


_Piece = bytes | Span


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of a message; `whole` has its tag and length too. `value` is that of a varint."""

    number: int
    kind: int
    whole: Span
    body: Span
    value: int


class _Scan:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._initializers = 0
        self.large: dict[int, Span] = {}

    def read(self, span: Span) -> bytes:
        self._file.seek(span.start)
        found = self._file.read(span.stop - span.start)
        if len(found) != span.stop - span.start:
            raise MalformedError
        return found

    def model(self, size: int) -> list[_Piece]:
        pieces: list[_Piece] = []
        for field in self._fields(Span(0, size)):
            if (field.number, field.kind) == (_GRAPH, _BYTES):
                pieces += _message(field.number, self._graph(field.body))
            else:
                _keep(pieces, field.whole)
        return pieces

    def _graph(self, body: Span) -> list[_Piece]:
        pieces: list[_Piece] = []
        for field in self._fields(body):
            if (field.number, field.kind) != (_INITIALIZER, _BYTES):
                _keep(pieces, field.whole)
                continue
            light = self._initializer(field.body) if _length(field.body) >= _LARGE_BYTES else None
            if light is None:
                _keep(pieces, field.whole)
            else:
                pieces += _message(field.number, light)
            self._initializers += 1
        return pieces

    def _initializer(self, body: Span) -> list[_Piece] | None:
        """The tensor without its data, which is noted; None where it stays."""
        pieces: list[_Piece] = []
        data, dtype = None, None
        for field in self._fields(body):
            if (field.number, field.kind) == (_RAW_DATA, _BYTES):
                data = field.body
                continue
            if (field.number, field.kind) == (_DATA_TYPE, _VARINT):
                dtype = field.value
            _keep(pieces, field.whole)
        if data is None or dtype not in _PLAIN_TYPES:
            return None
        self.large[self._initializers] = data
        return pieces

    def _fields(self, message: Span) -> Iterator[_Field]:
        at = message.start
        while at < message.stop:
            self._file.seek(at)
            tag, start = self._varint(at)
            number, kind = tag >> 3, tag & 7
            value = 0
            if kind == _VARINT:
                value, stop = self._varint(start)
                length = stop - start
            elif kind == _BYTES:
                length, start = self._varint(start)
            elif kind in _FIXED_BYTES:
                length = _FIXED_BYTES[kind]
            else:
                raise MalformedError
            if not number or start + length > message.stop:
                raise MalformedError
            yield _Field(number, kind, Span(at, start + length), Span(start, start + length), value)
            at = start + length

    def _varint(self, at: int) -> tuple[int, int]:
        """The number at the file's position, which is `at`, and the position after it."""
        value = 0
        for place in range(_LONGEST_VARINT):
            byte = self._file.read(1)
            if not byte:
                raise MalformedError
            value |= (byte[0] & 0x7F) << 7 * place
            if byte[0] < 0x80:
                return value, at + place + 1
        raise MalformedError


def _keep(pieces: list[_Piece], span: Span) -> None:
    """Append a span, joined with the one before where they touch."""
    if pieces and isinstance(last := pieces[-1], Span) and last.stop == span.start:
        pieces[-1] = Span(last.start, span.stop)
    else:
        pieces.append(span)


def _message(number: int, pieces: list[_Piece]) -> list[_Piece]:
    length = sum(len(piece) if isinstance(piece, bytes) else _length(piece) for piece in pieces)
    return [_varint_bytes(number << 3 | _BYTES) + _varint_bytes(length), *pieces]


def _length(span: Span) -> int:
    return span.stop - span.start


def _varint_bytes(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*found, value))
