"""Reads an ONNX model from a path, from bytes or from memory; believes nothing about it."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from compiler.errors import InputError, ModelError
from compiler.frontend.limits import MAX_MODEL_BYTES


@dataclass(frozen=True, slots=True)
class Source:
    """A parsed, unchecked model.

    Attributes:
        model: must not be changed, it may be the caller's.
        name: for people.
        folder: where external data may lie; None where there can be none.
    """

    model: onnx.ModelProto
    name: str
    folder: Path | None


def read_source(model: str | Path | bytes | onnx.ModelProto) -> Source:
    """Parse the model; raises ModelError where it is not one, InputError on any other type of argument."""
    match model:
        case onnx.ModelProto():
            return Source(model, model.graph.name or "model", None)
        case bytes():
            proto = _parse(model, "the given bytes")
            return Source(proto, proto.graph.name or "model", None)
        case str() | Path():
            path = Path(model)
            return Source(_parse(_read(path), str(path)), path.stem, path.parent)
        case _:
            msg = f"a model is a path, bytes or an onnx.ModelProto, not {type(model).__name__}; give one of these"
            raise InputError(msg)


def _read(path: Path) -> bytes:
    try:
        status = path.stat()
        _check_file(path, status)
        with path.open("rb") as file:
            # The name may mean something else by now: what was opened is what counts.
            _check_file(path, os.fstat(file.fileno()))
            data = file.read(MAX_MODEL_BYTES + 1)
    except FileNotFoundError:
        msg = f"there is no file {str(path)!r}; give the path of an ONNX model"
        raise ModelError(msg) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        msg = f"{str(path)!r} cannot be read ({reason}); give the path of a readable ONNX model"
        raise ModelError(msg) from error
    return data


def _check_file(path: Path, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        msg = f"{str(path)!r} is a folder; give the path of the ONNX file in it"
        raise ModelError(msg)
    if not stat.S_ISREG(status.st_mode):
        msg = f"{str(path)!r} is not a regular file; give the path of an ONNX file"
        raise ModelError(msg)
    if status.st_size > MAX_MODEL_BYTES:
        msg = f"{str(path)!r} has {status.st_size} bytes, more than {MAX_MODEL_BYTES}; use external data"
        raise ModelError(msg)


def _parse(data: bytes, what: str) -> onnx.ModelProto:
    if not data:
        msg = f"{what} is empty; give a complete ONNX model"
        raise ModelError(msg)
    if len(data) > MAX_MODEL_BYTES:
        msg = f"{what} has more than {MAX_MODEL_BYTES} bytes; move the weights into external data"
        raise ModelError(msg)
    try:
        model: onnx.ModelProto = onnx.ModelProto.FromString(data)
    except (DecodeError, RuntimeError) as error:
        msg = f"{what} is not an ONNX model, or it is cut off; export or download it again"
        raise ModelError(msg) from error
    if not model.ir_version or not model.HasField("graph"):
        msg = f"{what} is not an ONNX model (it has no version or no graph); export or download it again"
        raise ModelError(msg)
    return model
