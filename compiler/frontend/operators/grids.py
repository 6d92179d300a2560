"""AffineGrid: the places of an image's elements, from -1 to 1 along each dimension, moved by a matrix.

y[n, h, w, i] = theta[n, i, 0] * x(w) + theta[n, i, 1] * y(h) + theta[n, i, 2]
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from compiler.frontend.call import Array, Lowering, OperatorCall
from compiler.frontend.computes import at, float_operands, output_axes
from compiler.frontend.limits import checked_shape
from compiler.graph.ir import Compute
from compiler.index import Index
from compiler.scalar import Expr, Load, apply


def _affine_grid(call: OperatorCall) -> None:
    theta, size = call.value(0), call.constant_ints(1)
    float_operands(call, theta)
    batch, _, *image = (
        checked_shape(size, f"the output of node {call.label!r}") if len(size) in (4, 5) else [0] * 4
    )
    if call.shape(0) != (batch, len(image), len(image) + 1):
        call.reject(f"has theta of shape {list(call.shape(0))} for size {size}")
    axes = output_axes((batch, *image, len(image)))
    n, *places, row = at(axes)
    body: Expr = Load(theta, (n, row, Index.of(len(image))))
    aligned = bool(call.integer("align_corners"))
    # The first column of theta belongs to the last dimension.
    for column, (extent, place) in enumerate(reversed(list(zip(image, places, strict=True)))):
        line = _line(extent, aligned=aligned).astype(call.builder.dtype(theta))
        table = call.intermediate_constant(line, f"line{column}")
        term = apply("mul", Load(theta, (n, row, Index.of(column))), Load(table, (place,)))
        body = apply("add", body, term)
    call.emit(Compute(axes, (), None, body, call.dtype(theta)))


def _line(extent: int, *, aligned: bool) -> Array:
    """Places from -1 to 1: of the elements' centres where the ends are those of the image, else of the ends."""
    if not aligned:
        return (2 * np.arange(extent) + 1) / extent - 1
    return np.linspace(-1, 1, extent) if extent > 1 else np.full(1, -1.0)


LOWERINGS: Mapping[str, Lowering] = {"AffineGrid": _affine_grid}
