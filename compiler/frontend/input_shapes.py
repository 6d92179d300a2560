"""Shapes of a model's inputs: what the model fixes, completed by what the caller gives."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import TensorProto

from compiler.dtype import TENSOR_TYPES, DType
from compiler.errors import InputError, ModelError, NotStatic, UnsupportedModel
from compiler.frontend.limits import MAX_RANK, checked_shape, declared_size

Dims = list[int | str | None]
"""A size, the name of a symbol, or nothing at all."""


def input_types(graph: onnx.GraphProto) -> dict[str, DType]:
    """Element type of every tensor that the graph has as an input."""
    return {info.name: _type(info) for info in graph.input}


def input_dims(graph: onnx.GraphProto) -> dict[str, Dims | None]:
    """What the model says about the shape of every input that has no initialiser."""
    constants = {tensor.name for tensor in graph.initializer}
    return {info.name: _dims(info) for info in graph.input if info.name not in constants}


def input_shapes(graph: onnx.GraphProto, given: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Shape of every input that has no initialiser, in the model's order.

    Raises:
        ModelError: an input is no tensor of a known type, has an absurd shape, or is open and has no given shape.
        InputError: a shape names no input, or does not fit the dimensions that the model fixes.
    """
    constants = {tensor.name for tensor in graph.initializer}
    inputs = [info for info in graph.input if info.name not in constants]
    unknown = sorted(given.keys() - {info.name for info in inputs})
    if unknown:
        names = ", ".join(repr(info.name) for info in inputs) or "none"
        msg = f"the model has no input {unknown[0]!r}; give the shape of one of its inputs: {names}"
        raise InputError(msg)
    return {info.name: _shape(info, given.get(info.name)) for info in inputs}


def _shape(info: onnx.ValueInfoProto, given: tuple[int, ...] | None) -> tuple[int, ...]:
    _type(info)
    dims = _dims(info)
    what = f"input {info.name!r}"
    if given is not None:
        return _fitted(info.name, dims, given)
    sizes = [d for d in dims or () if isinstance(d, int)]
    if dims is None or len(sizes) != len(dims):
        example = ",".join(str(d) if isinstance(d, int) else "1" for d in dims or ("1",))
        shown = "no shape" if dims is None else f"the open shape {_text(dims)}"
        msg = f"{what} has {shown}; give it sizes with --shape {info.name}={example} (or shapes=)"
        raise ModelError(msg)
    return checked_shape(sizes, what)


def _type(info: onnx.ValueInfoProto) -> DType:
    if not info.type.HasField("tensor_type"):
        msg = f"input {info.name!r} is not a tensor"
        raise NotStatic(msg)
    kind = info.type.tensor_type.elem_type
    try:
        return DType.from_numpy(np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind)))
    except (KeyError, TypeError, ValueError):
        known = kind in TensorProto.DataType.values()
        name = TensorProto.DataType.Name(kind).lower() if known else str(kind)
        types = ", ".join(dtype.numpy.name for dtype in TENSOR_TYPES)
        msg = f"input {info.name!r} has element type {name}, which Luthier does not support"
        msg += f"; export the model with one of {types}"
        raise UnsupportedModel(msg) from None


def _dims(info: onnx.ValueInfoProto) -> Dims | None:
    if not info.type.tensor_type.HasField("shape"):
        return None
    dims: Dims = []
    for dim in info.type.tensor_type.shape.dim:
        size = declared_size(dim)
        dims.append(dim.dim_param or None if size is None else size)
    return dims


def _fitted(name: str, dims: Dims | None, given: tuple[int, ...]) -> tuple[int, ...]:
    try:
        sizes = tuple(int(n) for n in given)
    except (TypeError, ValueError):
        msg = f"the shape of input {name!r} is {given!r}; give whole numbers such as 1,3,224,224"
        raise InputError(msg) from None
    if len(sizes) > MAX_RANK or any(n < 1 for n in sizes):
        msg = f"the shape of input {name!r} is {list(sizes)}; give sizes of at least 1"
        raise InputError(msg)
    fits = dims is None or (
        len(dims) == len(sizes)
        and all(not isinstance(d, int) or d == n for d, n in zip(dims, sizes, strict=True))
    )
    if not fits:
        msg = (
            f"input {name!r} has shape {_text(dims or [])}, so {list(sizes)} does not fit; give sizes that do"
        )
        raise InputError(msg)
    return checked_shape(sizes, f"input {name!r}")


def _text(dims: Dims) -> str:
    return f"[{', '.join('?' if d is None else str(d) for d in dims)}]"
