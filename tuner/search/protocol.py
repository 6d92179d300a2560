"""SearchStrategy: what to measure next, of one SearchSpace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tuner.candidate import Candidate
from tuner.measure import MeasureResult

Scorer = Callable[[Sequence[Candidate]], NDArray[np.float64] | None]
"""Predicted merit of candidates of one Task, larger is better, shape (n_candidates,); None while nothing is known."""


class SearchStrategy(Protocol):
    """Proposes candidates of one SearchSpace. Not thread-safe.

    Deterministic: the same space, seed, scores and sequence of calls give the same proposals. No schedule is proposed
    twice, nor after it was observed.
    """

    def propose(self, count: int) -> list[Candidate]:
        """At most `count` new candidates, the most promising first; none when the space holds nothing new."""
        ...

    def observe(self, candidates: Sequence[Candidate], results: Sequence[MeasureResult]) -> None:
        """Learn the results of candidates, proposed here or known from the tuning log."""
        ...
