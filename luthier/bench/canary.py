"""The canary: whether a neighbour slowed the machine while something was timed.

On shared machines other guests use the same physical cores and caches, for seconds to minutes. A loop of multiply-adds
on registers hardly notices: the neighbour takes issue slots, load ports and cache. So a small kernel of constant work,
which needs all of those, runs right before and after each sample, and a sample counts only if the kernel took its usual
time. The kernel knows nothing of what is timed, so choosing samples by it favours no contender.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_SECONDS = 5e-4
_USUAL = 10
_TOLERANCE = 1.03


class Canary:
    """Remembers how long its kernel takes when nothing disturbs it."""

    def __init__(self, sampler: Callable[[int], float]) -> None:
        """`sampler`: seconds per run of the kernel over so many runs."""
        sampler(1)
        self._sampler = sampler
        self._runs = max(1, int(_SECONDS / max(1e-9, sampler(1))))
        self._sung: list[float] = []

    def sing(self) -> float:
        """Seconds per run, now; after a run that brings its operands near again, which any contender pushed away."""
        self._sampler(1)
        seconds = self._sampler(self._runs)
        self._sung.append(seconds)
        return seconds

    @property
    def limit_s(self) -> float:
        """Seconds per run up to which the machine is quiet: 3 % above the 10th percentile of all songs so far."""
        return _TOLERANCE * float(np.percentile(self._sung, _USUAL)) if self._sung else float("inf")
