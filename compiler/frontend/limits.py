"""Limits on what a model may ask for. A model comes from anywhere: nothing in it is believed before it is checked."""

from __future__ import annotations

from collections.abc import Iterable

from onnx import TensorShapeProto

from compiler.errors import ModelError

MAX_MODEL_BYTES = 2 << 30
"""Bytes of an ONNX file without its external data; what protobuf can hold."""
MAX_CONSTANT_BYTES = 16 << 30
"""Bytes of all initialisers together."""
MAX_NODES = 100_000
MAX_INITIALISERS = 100_000
MAX_RANK = 16
MAX_ELEMENTS = 2**31 - 1
"""Elements of one tensor."""
LARGEST = 2**20
"""Largest value of an open size."""


def declared_size(dim: TensorShapeProto.Dimension) -> int | None:
    """What the model says of a size; None where it is open, which some exporters write as a negative number."""
    return dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None


def checked_shape(shape: Iterable[int], what: str) -> tuple[int, ...]:
    """The shape, where no extent is negative and the tensor is not too large; raises ModelError."""
    sizes = tuple(shape)
    if len(sizes) > MAX_RANK:
        msg = f"{what} has {len(sizes)} dimensions, the limit is {MAX_RANK}; reshape it in the model"
        raise ModelError(msg)
    elements = 1
    for size in sizes:
        elements *= size
        if size < 0:
            msg = f"{what} has shape {list(sizes)}; give every dimension a size that is not negative"
            raise ModelError(msg)
        if elements > MAX_ELEMENTS:
            msg = f"{what} has shape {list(sizes)}, more than {MAX_ELEMENTS} elements; make it smaller"
            raise ModelError(msg)
    return sizes
