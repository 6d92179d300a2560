"""Lowerings by domain and operator; a file per family. The domain of ONNX itself is ""."""

from __future__ import annotations

from collections.abc import Mapping

from compiler.frontend.call import Lowering
from compiler.frontend.operators import (
    activation,
    arithmetic,
    columns,
    constants,
    control,
    convolution,
    einsum,
    gathering,
    grids,
    joining,
    matmul,
    movement,
    normalisation,
    padding,
    pooling,
    quantisation,
    quantised_products,
    rearranging,
    recurrent,
    reduction,
    reshaping,
    resizing,
    selecting,
    sequences,
    smooth,
    softmax,
    spectral,
    statistical,
    transposed_convolution,
    triangles,
)

_ONNX: Mapping[str, Lowering] = {
    **activation.LOWERINGS,
    **arithmetic.LOWERINGS,
    **columns.LOWERINGS,
    **constants.LOWERINGS,
    **control.LOWERINGS,
    **convolution.LOWERINGS,
    **einsum.LOWERINGS,
    **gathering.LOWERINGS,
    **grids.LOWERINGS,
    **joining.LOWERINGS,
    **matmul.LOWERINGS,
    **movement.LOWERINGS,
    **normalisation.LOWERINGS,
    **padding.LOWERINGS,
    **pooling.LOWERINGS,
    **quantisation.LOWERINGS,
    **quantised_products.LOWERINGS,
    **rearranging.LOWERINGS,
    **recurrent.LOWERINGS,
    **reduction.LOWERINGS,
    **reshaping.LOWERINGS,
    **resizing.LOWERINGS,
    **selecting.LOWERINGS,
    **sequences.LOWERINGS,
    **smooth.LOWERINGS,
    **softmax.LOWERINGS,
    **spectral.LOWERINGS,
    **statistical.LOWERINGS,
    **transposed_convolution.LOWERINGS,
    **triangles.LOWERINGS,
}

LOWERINGS: Mapping[str, Mapping[str, Lowering]] = {"": _ONNX, control.DOMAIN: control.OWN_LOWERINGS}
