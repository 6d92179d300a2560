"""Frames: how a parent and its child talk over pipes.

    frame ::= MAGIC, bytes of the header (u32), number of blobs (u32), bytes of each blob (u64 ...), header, blobs

The header is a JSON object, blobs are plain bytes; all integers are little-endian. Sizes are limited before anything is
allocated, because the other end may be a child that a bad candidate has overwritten.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

MAGIC = b"LUF1"
MAX_HEADER_BYTES = 64 << 20
MAX_BLOBS = 1 << 16
MAX_BLOB_BYTES = 8 << 30
"""Largest sum of the blobs of one frame: compiled models with their weights go through."""

_PREFIX = struct.Struct("<4sII")

Receive = Callable[[int], bytes]
"""Exactly that many bytes; raises EOFError where the other end has closed."""


class FrameError(ValueError):
    """The bytes are no frame, or pass a limit."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One message: JSON and binary attachments."""

    header: dict[str, Any]
    blobs: tuple[bytes, ...] = ()


def encode(frame: Frame) -> list[bytes]:
    """The frame as pieces to write one after another; raises FrameError beyond a limit."""
    header = json.dumps(frame.header, separators=(",", ":")).encode()
    sizes = [len(blob) for blob in frame.blobs]
    _check(len(header), sizes)
    prefix = _PREFIX.pack(MAGIC, len(header), len(sizes)) + struct.pack(f"<{len(sizes)}Q", *sizes)
    return [prefix + header, *frame.blobs]


def read(receive: Receive) -> Frame:
    """The next frame; raises FrameError on anything else, and what `receive` raises."""
    magic, header_bytes, count = _PREFIX.unpack(receive(_PREFIX.size))
    if magic != MAGIC:
        msg = "the other end sent something that is no frame"
        raise FrameError(msg)
    _check(header_bytes, (), count)
    sizes = struct.unpack(f"<{count}Q", receive(8 * count))
    _check(header_bytes, sizes)
    try:
        header = json.loads(receive(header_bytes))
    except ValueError as error:
        msg = "the header of a frame is not JSON"
        raise FrameError(msg) from error
    if not isinstance(header, dict):
        msg = "the header of a frame is not a JSON object"
        raise FrameError(msg)
    return Frame(header, tuple(receive(size) for size in sizes))


def _check(header_bytes: int, sizes: Sequence[int], count: int = 0) -> None:
    for what, value, limit in (
        ("header bytes", header_bytes, MAX_HEADER_BYTES),
        ("blobs", max(count, len(sizes)), MAX_BLOBS),
        ("bytes in blobs", sum(sizes), MAX_BLOB_BYTES),
    ):
        if value > limit:
            msg = f"a frame of {value} {what} is beyond the limit of {limit}"
            raise FrameError(msg)
