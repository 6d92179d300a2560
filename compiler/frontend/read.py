"""Reads an ONNX model from a path, from bytes or from memory; believes nothing about it."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from compiler.errors import InputError, ModelError
from compiler.frontend.limits import MAX_MODEL_BYTES
from compiler.frontend.order import in_order
from compiler.frontend.wire import MalformedError, Span, without_large_data

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Source:
    """A parsed, unchecked model.

    Attributes:
        model: must not be changed, it may be the caller's.
        name: for people.
        folder: where external data may lie; None where there can be none.
        data: of initialisers whose data was left out of `model`, by name.
    """

    model: onnx.ModelProto
    name: str
    folder: Path | None
    data: Mapping[str, Bytes] = field(default_factory=dict)


def read_source(model: str | Path | bytes | onnx.ModelProto, *, data: bool = True) -> Source:
    """Parse the model, with the data of large initialisers apart: it is in memory once, or not at all without `data`.

    Its nodes are in order. Raises ModelError where it is none, InputError on any other type of argument.
    """
    match model:
        case onnx.ModelProto():
            return Source(in_order(model), model.graph.name or "model", None)
        case bytes():
            what = "the given bytes"
            _check_size(len(model), what)
            light, large = _parse_light(io.BytesIO(model), len(model), what)
            views = {name: _view(model, span) for name, span in large.items()}
            return Source(in_order(light), light.graph.name or "model", None, views if data else {})
        case str() | Path():
            path = Path(model)
            with _opened(path) as file:
                size = os.fstat(file.fileno()).st_size
                light, large = _parse_light(file, size, str(path))
                arrays = {name: _array(file, span, str(path)) for name, span in large.items() if data}
            return Source(in_order(light), path.stem, path.parent, arrays)
        case _:
            raise _no_model(model)


def read_whole(model: str | Path | bytes | onnx.ModelProto) -> Source:
    """Parse the model with all the data it holds; raises as `read_source`."""
    match model:
        case str() | Path():
            path = Path(model)
            with _opened(path) as file:
                data = file.read(MAX_MODEL_BYTES + 1)
            return Source(_parse(data, str(path)), path.stem, path.parent)
        case bytes():
            proto = _parse(model, "the given bytes")
            return Source(proto, proto.graph.name or "model", None)
        case _:
            return read_source(model)


def _no_model(given: Any) -> InputError:
    return InputError(
        f"a model is a path, bytes or an onnx.ModelProto, not {type(given).__name__}; give one of these"
    )


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    try:
        status = path.stat()
        _check_file(path, status)
        with path.open("rb") as file:
            # The name may mean something else by now: what was opened is what counts.
            _check_file(path, os.fstat(file.fileno()))
            yield file
    except FileNotFoundError:
        msg = f"there is no file {str(path)!r}; give the path of an ONNX model"
        raise ModelError(msg) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        msg = f"{str(path)!r} cannot be read ({reason}); give the path of a readable ONNX model"
        raise ModelError(msg) from error


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


def _check_size(size: int, what: str) -> None:
    if not size:
        msg = f"{what} is empty; give a complete ONNX model"
        raise ModelError(msg)
    if size > MAX_MODEL_BYTES:
        msg = f"{what} has more than {MAX_MODEL_BYTES} bytes; move the weights into external data"
        raise ModelError(msg)


def _parse_light(file: BinaryIO, size: int, what: str) -> tuple[onnx.ModelProto, dict[str, Span]]:
    """The model without large data, and where that of each initialiser lies."""
    _check_size(size, what)
    try:
        light = without_large_data(file, size)
    except MalformedError as error:
        raise _not_onnx(what) from error
    model = _parse(light.model, what)
    return model, {model.graph.initializer[place].name: span for place, span in light.large.items()}


def _view(model: bytes, span: Span) -> Bytes:
    return np.frombuffer(model, np.uint8, span.stop - span.start, span.start)


def _array(file: BinaryIO, span: Span, what: str) -> Bytes:
    array = np.empty(span.stop - span.start, np.uint8)
    file.seek(span.start)
    read = file.readinto(array.data)  # type: ignore[attr-defined]  # typeshed's BinaryIO lacks it
    if read != array.size:
        raise _not_onnx(what)
    return array


def _parse(data: bytes, what: str) -> onnx.ModelProto:
    _check_size(len(data), what)
    try:
        model: onnx.ModelProto = onnx.ModelProto.FromString(data)
    except (DecodeError, RuntimeError) as error:
        raise _not_onnx(what) from error
    if not model.ir_version or not model.HasField("graph"):
        msg = f"{what} is not an ONNX model (it has no version or no graph); export or download it again"
        raise ModelError(msg)
    return model


def _not_onnx(what: str) -> ModelError:
    return ModelError(f"{what} is not an ONNX model, or it is cut off; export or download it again")
