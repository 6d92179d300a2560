from __future__ import annotations

import io
import struct

import pytest

from workers import frames
from workers.frames import Frame, FrameError


def receiver(data: bytes) -> frames.Receive:
    stream = io.BytesIO(data)

    def receive(count: int) -> bytes:
        part = stream.read(count)
        if len(part) < count:
            raise EOFError
        return part

    return receive


def test_what_is_written_is_read() -> None:
    first = Frame({"op": "measure", "text": "ä", "best_s": None}, (b"", b"\x00object", b"x" * 100_000))
    second = Frame({})
    receive = receiver(b"".join([*frames.encode(first), *frames.encode(second)]))

    assert frames.read(receive) == first
    assert frames.read(receive) == second
    with pytest.raises(EOFError):
        frames.read(receive)


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack("<4sII", frames.MAGIC, frames.MAX_HEADER_BYTES + 1, 0),
        struct.pack("<4sII", frames.MAGIC, 2, frames.MAX_BLOBS + 1),
        struct.pack("<4sIIQ", frames.MAGIC, 2, 1, frames.MAX_BLOB_BYTES + 1),
        struct.pack("<4sII", frames.MAGIC, 2, 0) + b"{]",
        struct.pack("<4sII", frames.MAGIC, 2, 0) + b"[]",
        struct.pack("<4sII", frames.MAGIC, 2, 0) + b"\xff\xfe",
    ],
)
def test_anything_else_is_refused_before_it_is_read(data: bytes) -> None:
    with pytest.raises(FrameError):
        frames.read(receiver(data))


def test_half_a_frame_is_the_end() -> None:
    whole = b"".join(frames.encode(Frame({"a": 1}, (b"12345",))))
    with pytest.raises(EOFError):
        frames.read(receiver(whole[:-1]))


def test_too_many_blobs_are_not_sent() -> None:
    with pytest.raises(FrameError, match="limit"):
        frames.encode(Frame({}, (b"",) * (frames.MAX_BLOBS + 1)))
