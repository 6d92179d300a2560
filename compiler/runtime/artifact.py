"""The `.luthier` file: an Image as bytes.

"LUTHIER7" | header length, 8 bytes little-endian | SHA-256 of the header, 32 bytes | 16 zeros
header (JSON) | blobs, each aligned to 256 bytes: the program, the team, the objects of the kernels' phases (of the
                general form, then of each size that was named), the packed constants

The header holds the length of each blob, the SHA-256 of all code, and of each constant the sum of its 64-bit words,
which finds damage at the speed of memory. A file is mapped, not read: its constants are used where they are, and
processes share them.
"""

from __future__ import annotations

import hashlib
import json
import mmap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from compiler.codegen.clear import Clear, Strip
from compiler.codegen.kernel import kernels_from_json, kernels_json, object_count, phase_objects
from compiler.dtype import DType
from compiler.errors import InputError
from compiler.index import Index
from compiler.index_json import index_from_json, index_json
from compiler.runtime.aligned import FOUR_LINES, data_pointer
from compiler.runtime.files import Piece, write_whole
from compiler.runtime.image import Image, KernelCall, Slot, TaskLookup, TensorSpec
from compiler.runtime.memory_plan import Life
from compiler.symbol import Size, Symbol, as_size
from compiler.target import target_from_json, target_json
from compiler.workload.work import Work

MAGIC = b"LUTHIER6"
_KIND = MAGIC[:-1]
_PREFIX = 64
_WORD = 8


def image_bytes(image: Image) -> bytes:
    """The file's content."""
    return b"".join(image_pieces(image))


def write_image(image: Image, path: Path) -> None:
    """Write the file, whole or not at all; raises InputError where the folder cannot be written."""
    write_whole(path, image_pieces(image))


def read_image(source: str | Path | bytes) -> Image:
    """Inverse of `write_image` and `image_bytes`; raises InputError where it is something else, or damaged."""
    data = memoryview(source) if isinstance(source, bytes) else _map_file(Path(source))
    name = "the data" if isinstance(source, bytes) else str(source)
    magic = bytes(data[: len(MAGIC)])
    if magic[: len(_KIND)] != _KIND:
        msg = f"{name} is not a .luthier file; make one with `luthier compile MODEL -o OUT.luthier`"
        raise InputError(msg)
    another = f"{name} was written by another version of Luthier; compile the model again"
    if magic != MAGIC:
        raise InputError(another)
    length = int.from_bytes(data[len(MAGIC) : len(MAGIC) + 8], "little")
    header = bytes(data[_PREFIX : _PREFIX + length])
    damaged = f"{name} is damaged (its checksum does not match); compile the model again"
    if hashlib.sha256(header).digest() != data[len(MAGIC) + 8 : len(MAGIC) + 40]:
        raise InputError(damaged)
    try:
        fields = json.loads(header)
        blobs, end = _blobs(fields["blobs"], data, _PREFIX + length)
        code = sum(object_count(part["kernels"]) + 2 for part in (fields, *fields.get("named", ())))
        whole = end == len(data) and _digest(blobs[:code]) == fields["code"]
        if not whole or [_sum(b) for b in blobs[code:]] != fields["sums"]:
            raise InputError(damaged)
        return _images(fields, blobs[:code], blobs[code:])
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(another) from error


def _map_file(path: Path) -> memoryview:
    """The file's content, read as it is needed; what was mapped stays as it is when the file is replaced."""
    try:
        with path.open("rb") as file:
            if not path.stat().st_size:
                return memoryview(b"")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        msg = f"cannot read {path}: {error.strerror or error}; check the path"
        raise InputError(msg) from error


def image_pieces(image: Image) -> Iterator[Piece]:
    """The file's content, piece by piece."""
    images = (image, *image.named)
    code: list[Piece] = []
    for part in images:
        code += [part.program, part.team, *phase_objects(part.kernels.values()).values()]
    places: dict[int, int] = {}
    for array in (array for part in images for array in part.constants):
        places.setdefault(data_pointer(array), len(places))
    arrays = {data_pointer(array): array for part in images for array in part.constants}
    constants: list[Piece] = [arrays[place].reshape(-1).view(np.uint8).data for place in places]
    fields, *named = ({**_header(part), "places": _places(part, places)} for part in images)
    if named:
        fields["named"] = named
    fields["blobs"] = [len(b) for b in (*code, *constants)]
    fields["code"], fields["sums"] = _digest(code), [_sum(b) for b in constants]
    header = json.dumps(fields, sort_keys=True).encode()
    yield MAGIC + len(header).to_bytes(8, "little") + hashlib.sha256(header).digest() + bytes(16)
    yield header
    at = _PREFIX + len(header)
    for blob in (*code, *constants):
        yield bytes(-at % FOUR_LINES)
        yield blob
        at += -at % FOUR_LINES + len(blob)


def _places(image: Image, places: dict[int, int]) -> list[int]:
    """Which of the constants' blobs each constant is."""
    return [places[data_pointer(array)] for array in image.constants]


def _images(header: dict[str, Any], code: list[memoryview], constants: list[memoryview]) -> Image:
    """The Image, and those of the sizes that were named with their part of the code."""
    parts = []
    for fields in (header, *header.get("named", ())):
        count = object_count(fields["kernels"]) + 2
        own, code = code[:count], code[count:]
        places = fields.get("places", range(len(fields["constants"])))
        parts.append(_image(fields, [*own, *(constants[place] for place in places)]))
    image, *named = parts
    return replace(image, named=tuple(named))


def _blobs(sizes: list[int], data: memoryview, at: int) -> tuple[list[memoryview], int]:
    """Each blob, and where the last one should end."""
    blobs = []
    for size in sizes:
        at += -at % FOUR_LINES
        blobs.append(data[at : at + size])
        at += size
    return blobs, at


def _digest(blobs: list[Piece] | list[memoryview]) -> str:
    found = hashlib.sha256()
    for blob in blobs:
        found.update(blob)
    return found.hexdigest()


def _sum(blob: Piece) -> int:
    """Of the 64-bit words, modulo 2**64; what remains of the last one is filled up with zeros."""
    whole = len(blob) // _WORD * _WORD
    rest = int.from_bytes(blob[whole:], "little")
    return (int(np.add.reduce(np.frombuffer(blob[:whole], np.uint64))) + rest) % (1 << 64)


def _header(image: Image) -> dict[str, Any]:
    return {
        "name": image.name,
        "inputs": [_spec_json(s) for s in image.inputs],
        "outputs": [_spec_json(s) for s in image.outputs],
        "target": target_json(image.target),
        "threads": image.threads,
        "kernels": kernels_json(list(image.kernels.values()))[0],
        "calls": [_call_json(c) for c in image.calls],
        "slots": [[s.kind, s.where] for s in image.slots],
        "constants": [[list(a.shape), DType.from_numpy(a.dtype).value] for a in image.constants],
        "arena_bytes": image.arena_bytes,
        "zeroed_bytes": image.zeroed_bytes,
        "symbols": [[s.name, s.low, s.high, list(s.hints)] for s in image.symbols],
        "lives": [[v.value, v.first, v.last, index_json(v.size_bytes), v.border] for v in image.lives],
        "reread": list(image.reread),
        "lookups": [[t.workload, t.name, t.weight, t.lookup, t.expected_loss] for t in image.lookups],
    }


def _image(header: dict[str, Any], blobs: list[memoryview]) -> Image:
    count = object_count(header["kernels"])
    kernels = kernels_from_json(header["kernels"], [bytes(code) for code in blobs[2 : 2 + count]])
    constants = tuple(
        np.frombuffer(blob, DType(dtype).numpy).reshape(shape)
        for (shape, dtype), blob in zip(header["constants"], blobs[2 + count :], strict=True)
    )
    return Image(
        name=header["name"],
        inputs=tuple(_spec(s) for s in header["inputs"]),
        outputs=tuple(_spec(s) for s in header["outputs"]),
        target=target_from_json(header["target"]),
        threads=header["threads"],
        kernels={k.name: k for k in kernels},
        program=bytes(blobs[0]),
        team=bytes(blobs[1]),
        calls=tuple(_call(call) for call in header["calls"]),
        slots=tuple(Slot(kind, where) for kind, where in header["slots"]),
        constants=constants,
        arena_bytes=header["arena_bytes"],
        zeroed_bytes=header["zeroed_bytes"],
        lookups=tuple(TaskLookup(*row) for row in header["lookups"]),
        symbols=tuple(Symbol(name, low, high, tuple(hints)) for name, low, high, hints in header["symbols"]),
        lives=tuple(Life(value, a, b, index_from_json(size), n) for value, a, b, size, n in header["lives"]),
        reread=tuple(int(number) for number in header.get("reread", ())),
    )


def _call_json(call: KernelCall) -> list[Any]:
    clears = [[c.slot, [[s.start, s.length, s.stride, s.count] for s in c.strips]] for c in call.clears]
    work = [_size_json(call.work.computed), _size_json(call.work.constant)]
    work += [[name, _size_json(size)] for name, size in call.work.moved.items()]
    return [call.kernel, list(call.slots), call.name, work, clears]


def _call(data: Any) -> KernelCall:
    kernel, slots, name, work, clears = data
    found = tuple(Clear(slot, tuple(Strip(*strip) for strip in strips)) for slot, strips in clears)
    computed, constant, *moved = work
    known = Work(_size(computed), {operand: _size(size) for operand, size in moved}, _size(constant))
    return KernelCall(kernel, tuple(slots), name, known, found)


def _size_json(size: Size) -> Any:
    return index_json(Index.of(size))


def _size(data: Any) -> Size:
    return as_size(index_from_json(data))


def _spec_json(spec: TensorSpec) -> list[Any]:
    return [spec.name, [_size_json(n) for n in spec.shape], spec.dtype.value]


def _spec(data: Any) -> TensorSpec:
    name, shape, dtype = data
    return TensorSpec(name, tuple(map(_size, shape)), DType(dtype))
