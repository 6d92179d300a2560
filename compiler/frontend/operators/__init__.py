"""Lowerings by operator of the ONNX domain; a file per family."""

from __future__ import annotations

from collections.abc import Mapping

from compiler.frontend.call import Lowering
from compiler.frontend.operators import (
    activation,
    arithmetic,
    constants,
    convolution,
    joining,
    matmul,
    movement,
    normalisation,
    pooling,
    reduction,
    reshaping,
)

LOWERINGS: Mapping[str, Lowering] = {
    **activation.LOWERINGS,
    **arithmetic.LOWERINGS,
    **constants.LOWERINGS,
    **convolution.LOWERINGS,
    **joining.LOWERINGS,
    **matmul.LOWERINGS,
    **movement.LOWERINGS,
    **normalisation.LOWERINGS,
    **pooling.LOWERINGS,
    **reduction.LOWERINGS,
    **reshaping.LOWERINGS,
}
