"""What a model declares its inputs to be, against what a call gives."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx

from compiler.errors import InputError, UnsupportedModel
from compiler.frontend.limits import declared_size
from compiler.frontend.segment import TensorKind


def declared_kinds(
    inputs: Mapping[str, onnx.ValueInfoProto], shapes: Mapping[str, tuple[int, ...]] = MappingProxyType({})
) -> dict[str, TensorKind] | None:
    """Shape and type of every input; None where one is open and not in `shapes`, or no tensor."""
    found = {}
    for name, info in inputs.items():
        kind = info.type.tensor_type
        if name in shapes and info.type.HasField("tensor_type"):
            found[name] = TensorKind(shapes[name], element_type(info.name, kind.elem_type))
            continue
        dims = [declared_size(d) for d in kind.shape.dim]
        known = tuple(d for d in dims if d is not None)
        if not info.type.HasField("tensor_type") or not kind.HasField("shape") or len(known) != len(dims):
            return None
        found[name] = TensorKind(known, element_type(info.name, kind.elem_type))
    return found


def check_value(info: onnx.ValueInfoProto, value: Any) -> None:
    """Raises InputError where a value is not what the model declares."""
    kind = info.type
    if kind.HasField("optional_type"):
        if value is None:
            return
        kind = kind.optional_type.elem_type
    if kind.HasField("sequence_type"):
        if not isinstance(value, list):
            msg = f"input {info.name!r} is a sequence; give a list of arrays"
            raise InputError(msg)
        for element in value:
            _check_tensor(info.name, kind.sequence_type.elem_type.tensor_type, element)
    elif kind.HasField("tensor_type"):
        _check_tensor(info.name, kind.tensor_type, value)
    else:
        msg = f"input {info.name!r} is of a kind that Luthier does not support; use tensors"
        raise UnsupportedModel(msg)


def element_type(name: str, kind: int) -> np.dtype[Any]:
    """The NumPy type of an ONNX element type; raises UnsupportedModel."""
    if kind == onnx.TensorProto.STRING:
        msg = f"input {name!r} holds strings, which Luthier does not support; take them out of the model"
        raise UnsupportedModel(msg)
    try:
        return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind))
    except (KeyError, TypeError, ValueError):
        msg = f"input {name!r} has the element type {kind}, which Luthier does not support; use numbers"
        raise UnsupportedModel(msg) from None


def _check_tensor(name: str, kind: onnx.TypeProto.Tensor, value: Any) -> None:
    dtype = element_type(name, kind.elem_type)
    dims = [declared_size(d) for d in kind.shape.dim]
    fits = isinstance(value, np.ndarray) and value.dtype == dtype
    if fits and kind.HasField("shape"):
        fits = len(dims) == value.ndim and all(d in (None, n) for d, n in zip(dims, value.shape, strict=True))
    if fits:
        return
    shown = ["?" if d is None else d for d in dims] if kind.HasField("shape") else "any shape"
    given = (
        f"{value.dtype} of shape {list(value.shape)}"
        if isinstance(value, np.ndarray)
        else type(value).__name__
    )
    msg = f"input {name!r} is {given}; give {dtype} of shape {shown}"
    raise InputError(msg)
