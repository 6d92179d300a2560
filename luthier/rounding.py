"""How far a compiled model's outputs are off by what its kernels round: an estimate from two runs.

Each Task keeps to its share of the model's error budget, and most models hand errors on as they are. Some enlarge them:
a difference of what is nearly equal, a long chain without a norm between. `luthier.compile` runs what it has compiled,
as it is and with its constants nudged (compiler/runtime/nudged.py), and where the two are further apart than the budget
compiles again with less for each Task.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from contextlib import closing

import numpy as np

from compiler.dtype import DType
from compiler.errors import InputError
from compiler.runtime.image import Image, TensorSpec
from compiler.runtime.module import Module
from compiler.runtime.nudged import NUDGES, nudged
from luthier.bench.reference import Arrays, seeded

_LOG = logging.getLogger("luthier")


def rounding_error(image: Image, index_extents: Mapping[str, int], bound: float) -> float:
    """Estimated error of the outputs for random inputs, relative to the largest value of each; the worst of them.

    Some nudges go much further than rounding ever does: above `bound` it is the least of several.

    0 where no kernel rounds more than single precision does, and where it cannot be told: outputs are not finite, or
    the model takes other sizes only.

    Args:
        image: for this machine; open sizes are given their nominal values.
        index_extents: of inputs whose elements are indices, by name (compiler/workload/index_operands.py).
        bound: what is within is told by one pair of runs.
    """
    least = math.inf
    for seed in range(NUDGES):
        other = nudged(image, seed)
        if other is None:
            return 0.0
        try:
            least = min(least, _difference(image, other, index_extents, seed))
        except InputError as error:  # Sizes that are open one by one may not fit each other.
            _LOG.info("what rounding does to %s is not known: %s", image.name, error)
            return 0.0
        if least <= bound:
            break
    return least


def _difference(image: Image, other: Image, index_extents: Mapping[str, int], seed: int) -> float:
    inputs = made_up_inputs(image, index_extents, seed)
    with closing(Module(image)) as module, closing(Module(other)) as changed:
        return difference(module.run(inputs), changed.run(inputs))


def made_up_inputs(image: Image, index_extents: Mapping[str, int], seed: int) -> dict[str, np.ndarray]:
    """Random inputs of a model, open sizes at their nominal values."""
    generator = np.random.default_rng(seed)
    sizes = {symbol.name: symbol.nominal for symbol in image.symbols}
    return {s.name: _array(s, generator, sizes, index_extents.get(s.name)) for s in image.inputs}


def difference(outputs: Arrays, others: Arrays) -> float:
    """Largest difference between floats that are finite in both, relative to the largest of an output; the worst."""
    worst = 0.0
    for name, array in outputs.items():
        other = others[name]
        if not array.size or array.dtype.kind != "f":
            continue
        finite = np.isfinite(array) & np.isfinite(other)
        values = array[finite].astype(np.float64)
        largest = np.max(np.abs(values), initial=0.0)
        if largest > 0.0:
            worst = max(worst, float(np.max(np.abs(values - other[finite])) / largest))
    return worst


def _array(
    spec: TensorSpec, generator: np.random.Generator, sizes: Mapping[str, int], indexed: int | None
) -> np.ndarray:
    """As others are timed with, but ones where integers are no indices: those are masks or lengths mostly."""
    wide = not spec.dtype.is_float and (spec.dtype is DType.BOOL or spec.dtype.size_bytes > 1)
    if wide and indexed is None:
        return np.ones(spec.sizes(sizes), spec.dtype.numpy)
    return seeded(spec, generator, indexed, sizes)
