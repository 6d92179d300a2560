"""The seed of a model that draws random numbers: an input of its own, which a run draws where the caller gives none.

What is drawn is a function of the seed and of the place: kernels stay pure, and a result can be had again and verified.
"""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np

SEED = "luthier.seed"
"""Name of the input: one whole number of 64 bits, without dimensions."""


def drawn_seed() -> np.ndarray[Any, Any]:
    """A seed that nobody knows."""
    return np.asarray(secrets.randbits(63), np.int64)
