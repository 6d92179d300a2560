"""Lowerings by domain and operator; a file per family. The domain of ONNX itself is ""."""

from __future__ import annotations

from collections.abc import Mapping

from compiler.frontend.call import OWN_DOMAIN, Lowering
from compiler.frontend.operators import (
    activation,
    arithmetic,
    casts,
    columns,
    constants,
    control,
    convolution,
    einsum,
    extremes,
    gathering,
    grids,
    joining,
    logic,
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
    selections,
    sequences,
    smooth,
    softmax,
    spectral,
    statistical,
    suppression,
    transposed_convolution,
    triangles,
    unique,
)
from compiler.frontend.single import in_single

_ONNX: Mapping[str, Lowering] = {
    **activation.LOWERINGS,
    **arithmetic.LOWERINGS,
    **casts.LOWERINGS,
    **in_single(columns.LOWERINGS),
    **constants.LOWERINGS,
    **control.LOWERINGS,
    **in_single(convolution.LOWERINGS),
    **in_single(einsum.LOWERINGS),
    **extremes.LOWERINGS,
    **gathering.LOWERINGS,
    **in_single(grids.LOWERINGS),
    **joining.LOWERINGS,
    **logic.LOWERINGS,
    **matmul.LOWERINGS,
    **movement.LOWERINGS,
    **in_single(normalisation.LOWERINGS),
    **padding.LOWERINGS,
    **in_single(pooling.LOWERINGS),
    **quantisation.LOWERINGS,
    **quantised_products.LOWERINGS,
    **rearranging.LOWERINGS,
    **in_single(recurrent.LOWERINGS),
    **in_single(reduction.LOWERINGS),
    **reshaping.LOWERINGS,
    **in_single(resizing.LOWERINGS),
    **selections.LOWERINGS,
    **sequences.LOWERINGS,
    **smooth.LOWERINGS,
    **softmax.LOWERINGS,
    **in_single(spectral.LOWERINGS),
    **in_single(statistical.LOWERINGS, rounded=1),
    **suppression.LOWERINGS,
    **in_single(transposed_convolution.LOWERINGS),
    **triangles.LOWERINGS,
    **unique.LOWERINGS,
}

_OWN: Mapping[str, Lowering] = {**control.OWN_LOWERINGS, **selections.OWN_LOWERINGS, **unique.OWN_LOWERINGS}

LOWERINGS: Mapping[str, Mapping[str, Lowering]] = {"": _ONNX, OWN_DOMAIN: _OWN}
