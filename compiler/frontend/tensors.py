"""Values of ONNX tensors as NumPy arrays: inline data, and external data from the model's own folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, numpy_helper

from compiler.errors import ModelError, UnsupportedModel
from compiler.frontend.limits import MAX_CONSTANT_BYTES, MAX_ELEMENTS, MAX_RANK

Array = npt.NDArray[Any]


@dataclass
class TensorReader:
    """Reads the tensors of one model.

    Attributes:
        folder: where external data may lie; None refuses it.
        data: bytes of initialisers that were parsed without them, by name.
    """

    folder: Path | None
    data: Mapping[str, npt.NDArray[np.uint8]] = field(default_factory=dict)
    read_bytes: int = field(default=0, init=False)

    def initialiser(self, tensor: TensorProto) -> Array:
        """The value of one of the model's own initialisers; see `array`."""
        return self._array(tensor, tensor.name, self.data.get(tensor.name))

    def array(self, tensor: TensorProto, name: str) -> Array:
        """The read-only value; raises ModelError where type, shape and data do not fit together."""
        return self._array(tensor, name, None)

    def _array(self, tensor: TensorProto, name: str, data: npt.NDArray[np.uint8] | None) -> Array:
        shape = _shape(tensor, name)
        dtype = _dtype(tensor, name)
        self._count(int(np.prod(shape, dtype=np.float64)) * dtype.itemsize)
        if tensor.data_location == TensorProto.EXTERNAL:
            array = np.frombuffer(self._external(tensor, name, shape, dtype), dtype).reshape(shape)
        elif data is not None:
            array = _apart(data, shape, dtype, name)
        elif has_data(tensor) or 0 in shape:
            array = _inline(tensor, name)
        else:
            msg = f"tensor {name!r} of shape {list(shape)} has no data; give a model with its weights"
            raise ModelError(msg)
        array = np.asarray(array, order="C")
        array.setflags(write=False)
        return array

    def _count(self, size_bytes: int) -> None:
        self.read_bytes += size_bytes
        if self.read_bytes > MAX_CONSTANT_BYTES:
            msg = f"the constants of the model take more than {MAX_CONSTANT_BYTES} bytes; use a smaller model"
            raise ModelError(msg)

    def _external(
        self, tensor: TensorProto, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> bytes:
        if self.folder is None:
            msg = (
                f"tensor {name!r} has external data, which a model in memory cannot have; give a path instead"
            )
            raise ModelError(msg)
        entries = {entry.key: entry.value for entry in tensor.external_data}
        path = _external_path(self.folder, entries.get("location", ""), name)
        wanted = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        offset = _count(entries.get("offset", "0"), "offset", name)
        length = _count(entries["length"], "length", name) if entries.get("length") else wanted
        if length != wanted:
            msg = f"tensor {name!r} has {length} bytes of external data, its shape needs {wanted}; export it again"
            raise ModelError(msg)
        return _read_span(path, offset, length, name)


def has_data(tensor: TensorProto) -> bool:
    """Whether the values are in the tensor itself."""
    fields = (
        tensor.float_data,
        tensor.int32_data,
        tensor.int64_data,
        tensor.double_data,
        tensor.uint64_data,
        tensor.string_data,
    )
    return tensor.data_location != TensorProto.EXTERNAL and (
        tensor.HasField("raw_data") or any(map(len, fields))
    )


def _shape(tensor: TensorProto, name: str) -> tuple[int, ...]:
    """Dimensions; unlike those of computed values they may be 0 (an empty list of axes)."""
    shape = tuple(int(d) for d in tensor.dims)
    elements = 1
    for size in shape:
        elements *= size
        if size < 0 or elements > MAX_ELEMENTS or len(shape) > MAX_RANK:
            msg = f"tensor {name!r} has the impossible shape {list(shape)[: MAX_RANK + 1]}; export it again"
            raise ModelError(msg)
    return shape


def _dtype(tensor: TensorProto, name: str) -> np.dtype[Any]:
    if tensor.data_type == TensorProto.STRING:
        msg = f"tensor {name!r} holds strings, which Luthier does not support; take it out of the model"
        raise UnsupportedModel(msg)
    try:
        return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type))
    except (KeyError, TypeError, ValueError) as error:
        msg = f"tensor {name!r} has the unknown element type {tensor.data_type}; export it with an ONNX type"
        raise ModelError(msg) from error


def _inline(tensor: TensorProto, name: str) -> Array:
    try:
        return numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise _unfit(name, tensor.dims) from error


def _apart(data: npt.NDArray[np.uint8], shape: tuple[int, ...], dtype: np.dtype[Any], name: str) -> Array:
    try:
        return data.view(dtype.newbyteorder("<")).reshape(shape)
    except ValueError as error:
        raise _unfit(name, shape) from error


def _unfit(name: str, shape: Iterable[int]) -> ModelError:
    return ModelError(
        f"the data of tensor {name!r} does not fit its shape {list(shape)}; export the model again"
    )


def _count(text: str, key: str, name: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        msg = f"tensor {name!r} has the external {key} {text[:40]!r}, which is no size in bytes; export it again"
        raise ModelError(msg)
    return int(text)


def _external_path(folder: Path, location: str, name: str) -> Path:
    """The file, which lies in the model's own folder and nowhere else, also after following links."""
    plain = location and not set(location) & set("/\\\0:") and location not in (".", "..")
    if plain:
        root = folder.resolve()
        path = (root / location).resolve()
        if path.parent == root:
            return path
    msg = (
        f"tensor {name!r} has its data in {location[:100]!r}, which is not a file in the folder of the model; "
        "put the file beside the model under a plain name"
    )
    raise ModelError(msg)


def _read_span(path: Path, offset: int, length: int, name: str) -> bytes:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            msg = f"{path.name!r}, the data of tensor {name!r}, is not a regular file; put the file there"
            raise ModelError(msg)
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if offset + length > size:
                msg = (
                    f"tensor {name!r} needs bytes {offset} to {offset + length} of {path.name!r}, "
                    f"which has {size}; export the model again"
                )
                raise ModelError(msg)
            file.seek(offset)
            return file.read(length)
    except OSError as error:
        msg = (
            f"{path.name!r}, the data of tensor {name!r}, cannot be read ({error.strerror}); "
            "put the file beside the model"
        )
        raise ModelError(msg) from error
