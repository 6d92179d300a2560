"""A model as one string of bytes: what is stored by its digest, and what travels to a server."""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import TensorProto, numpy_helper

from compiler.errors import ModelError
from compiler.frontend.limits import MAX_MODEL_BYTES
from compiler.frontend.read import Source, read_whole
from compiler.frontend.tensors import TensorReader


def model_bytes(model: str | Path | bytes | onnx.ModelProto) -> tuple[bytes, str]:
    """The ONNX bytes of a model with its external data inside, and its name; a model without any stays as it is.

    Raises:
        ModelError: the model or its external data cannot be read, or both together pass what ONNX can hold.
        InputError: the argument is no model.
    """
    source = read_whole(model)
    tensors = [t for t in source.model.graph.initializer if t.data_location == TensorProto.EXTERNAL]
    if tensors:
        return _serialised(_embedded(source)), source.name
    match model:
        case bytes():
            return model, source.name
        case _:
            return _serialised(source.model), source.name


def _embedded(source: Source) -> onnx.ModelProto:
    model = onnx.ModelProto()
    model.CopyFrom(source.model)
    reader = TensorReader(source.folder)
    for tensor in model.graph.initializer:
        if tensor.data_location == TensorProto.EXTERNAL:
            tensor.CopyFrom(numpy_helper.from_array(reader.array(tensor, tensor.name), tensor.name))
    return model


def _serialised(model: onnx.ModelProto) -> bytes:
    if model.ByteSize() > MAX_MODEL_BYTES:
        msg = f"the model takes more than {MAX_MODEL_BYTES} bytes with its weights inside; tune a smaller one"
        raise ModelError(msg)
    # Deterministic, so that equal models have equal digests.
    return bytes(model.SerializeToString(deterministic=True))
