"""The `.luthier` file: an Image as bytes.

"LUTHIER1" | header length, 8 bytes little-endian | SHA-256 of all that follows, 32 bytes
header (JSON) | blobs, each aligned to 64 bytes: the program, the team, the kernels' objects, the packed constants
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from compiler.codegen.clear import Clear, Strip
from compiler.codegen.kernel import kernel_from_json, kernel_json
from compiler.dtype import DType
from compiler.errors import InputError
from compiler.index import Index, index_from_json, index_json
from compiler.runtime.image import Image, KernelCall, Slot, TaskLookup, TensorSpec
from compiler.runtime.memory_plan import Life
from compiler.symbol import Symbol, as_size
from compiler.target import target_from_json, target_json

MAGIC = b"LUTHIER1"
_PREFIX = len(MAGIC) + 8 + 32
_ALIGN = 64


def image_bytes(image: Image) -> bytes:
    """The file's content."""
    blobs = [image.program, image.team, *(k.object_code for k in image.kernels.values())]
    blobs += [array.tobytes() for array in image.constants]
    header = json.dumps({**_header(image), "blobs": [len(b) for b in blobs]}, sort_keys=True).encode()
    body = bytearray(header)
    for blob in blobs:
        body += b"\0" * (-len(body) % _ALIGN) + blob
    return MAGIC + len(header).to_bytes(8, "little") + hashlib.sha256(body).digest() + bytes(body)


def write_image(image: Image, path: Path) -> None:
    """Write the file, whole or not at all; raises InputError where the folder cannot be written."""
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            try:
                file.write(image_bytes(image))
                file.flush()
                os.fsync(file.fileno())
                Path(file.name).chmod(0o644)
                Path(file.name).replace(path)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        msg = f"cannot write {path}: {error.strerror or error}; choose a folder that you may write to"
        raise InputError(msg) from error


def read_image(source: str | Path | bytes) -> Image:
    """Inverse of `write_image` and `image_bytes`; raises InputError where it is something else, or damaged."""
    data = source if isinstance(source, bytes) else _read_file(Path(source))
    name = "the data" if isinstance(source, bytes) else str(source)
    if data[: len(MAGIC)] != MAGIC:
        msg = f"{name} is not a .luthier file; make one with `luthier compile MODEL -o OUT.luthier`"
        raise InputError(msg)
    length = int.from_bytes(data[len(MAGIC) : len(MAGIC) + 8], "little")
    body = memoryview(data)[_PREFIX:]
    if hashlib.sha256(body).digest() != data[len(MAGIC) + 8 : _PREFIX]:
        msg = f"{name} is damaged (its checksum does not match); compile the model again"
        raise InputError(msg)
    try:
        return _image(json.loads(bytes(body[:length])), body, length)
    except (KeyError, TypeError, ValueError) as error:
        msg = f"{name} was written by another version of Luthier; compile the model again"
        raise InputError(msg) from error


def _read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        msg = f"cannot read {path}: {error.strerror or error}; check the path"
        raise InputError(msg) from error


def _header(image: Image) -> dict[str, Any]:
    return {
        "name": image.name,
        "inputs": [_spec_json(s) for s in image.inputs],
        "outputs": [_spec_json(s) for s in image.outputs],
        "target": target_json(image.target),
        "threads": image.threads,
        "kernels": [kernel_json(k) for k in image.kernels.values()],
        "calls": [_call_json(c) for c in image.calls],
        "slots": [[s.kind, s.where] for s in image.slots],
        "constants": [[list(a.shape), DType.from_numpy(a.dtype).value] for a in image.constants],
        "arena_bytes": image.arena_bytes,
        "zeroed_bytes": image.zeroed_bytes,
        "symbols": [[s.name, s.low, s.high, list(s.hints)] for s in image.symbols],
        "lives": [[v.value, v.first, v.last, index_json(v.size_bytes), v.border] for v in image.lives],
        "lookups": [[t.workload, t.name, t.weight, t.lookup, t.expected_loss] for t in image.lookups],
    }


def _image(header: dict[str, Any], body: memoryview, start: int) -> Image:
    blobs, at = [], start
    for size in header["blobs"]:
        at += -at % _ALIGN
        blobs.append(body[at : at + size])
        at += size
    count = len(header["kernels"])
    kernels = [
        kernel_from_json(data, bytes(code))
        for data, code in zip(header["kernels"], blobs[2 : 2 + count], strict=True)
    ]
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
        kernels={k.symbol: k for k in kernels},
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
    )


def _call_json(call: KernelCall) -> list[Any]:
    clears = [[c.slot, [[s.start, s.length, s.stride, s.count] for s in c.strips]] for c in call.clears]
    return [call.symbol, list(call.slots), call.name, clears]


def _call(data: Any) -> KernelCall:
    symbol, slots, name, clears = data
    found = tuple(Clear(slot, tuple(Strip(*strip) for strip in strips)) for slot, strips in clears)
    return KernelCall(symbol, tuple(slots), name, found)


def _spec_json(spec: TensorSpec) -> list[Any]:
    return [spec.name, [index_json(Index.of(n)) for n in spec.shape], spec.dtype.value]


def _spec(data: Any) -> TensorSpec:
    name, shape, dtype = data
    return TensorSpec(name, tuple(as_size(index_from_json(n)) for n in shape), DType(dtype))
