"""A figure with the bounds that 95 % of its resamples keep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

RESAMPLES = 2000
_BOUNDS = (2.5, 97.5)


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure and its bounds; formatted as each of them is: `f"{interval:.2f}"`."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, value: float, resampled: npt.NDArray[Any]) -> Interval:
        """`resampled`: the figure for each of the resamples."""
        low, high = np.percentile(resampled, _BOUNDS)
        return cls(float(value), float(low), float(high))

    def __format__(self, spec: str) -> str:
        return f"{self.value:{spec}} ({self.low:{spec}}..{self.high:{spec}})"
