"""Seeded inputs, and outputs in float64 to measure an engine's error against."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

import numpy as np

from compiler.dtype import DType
from compiler.runtime.image import TensorSpec
from compiler.workload.index_operands import input_index_extents
from compiler.workload.program import Program

Arrays = Mapping[str, np.ndarray]
_NONE: Mapping[str, int] = MappingProxyType({})


def make_inputs(
    specs: Iterable[TensorSpec], seed: int = 0, program: Program | None = None
) -> dict[str, np.ndarray]:
    """Inputs that depend on the seed alone: normal for floats, all values of a byte, 0 to 6 for other integers.

    Quantised values use their whole range; sums that saturate show only there. Integers that are indices run over all
    that they can choose from, where the program that tells so is given.
    """
    generator = np.random.default_rng(seed)
    extents = {} if program is None else input_index_extents(program)
    return {spec.name: seeded(spec, generator, extents.get(spec.name)) for spec in specs}


def relative_error(outputs: Arrays, reference: Arrays) -> float:
    """Largest difference over the largest value of the reference, the worst of all outputs; infinite for NaN."""
    worst = 0.0
    for name, expected in reference.items():
        if expected.size == 0:
            continue
        scale = max(float(np.max(np.abs(expected))), np.finfo(np.float64).tiny)
        error = float(np.max(np.abs(np.asarray(outputs[name], np.float64) - expected))) / scale
        worst = max(worst, error if np.isfinite(error) else float("inf"))
    return worst


def seeded(
    spec: TensorSpec, generator: np.random.Generator, indexed: int | None, sizes: Mapping[str, int] = _NONE
) -> np.ndarray:
    """One input; `indexed`: how many elements its integers choose from; `sizes`: of open dimensions, by symbol."""
    shape = spec.sizes(sizes)
    if spec.dtype.is_float:
        return generator.standard_normal(shape).astype(spec.dtype.numpy)
    if spec.dtype is DType.BOOL:
        return generator.random(shape) < 0.5
    if spec.dtype.size_bytes == 1 and indexed is None:
        return np.frombuffer(generator.bytes(int(np.prod(shape))), spec.dtype.numpy).reshape(shape).copy()
    return generator.integers(0, indexed or 7, shape).astype(spec.dtype.numpy)
