"""CostModel: ranks candidates of a Task without measuring them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tuner.candidate import Candidate
from tuner.measure import MeasureResult
from tuner.task import Task

FeatureExtractor = Callable[[Task, Sequence[Candidate]], NDArray[np.float64]]
"""Features of candidates, shape (n_candidates, n_features); a row of NaN for one whose Schedule is illegal."""


@dataclass(frozen=True)
class Group:
    """What is known of one Task: candidates with their results, in the same order."""

    task: Task
    candidates: tuple[Candidate, ...]
    results: tuple[MeasureResult, ...]


@dataclass(frozen=True, slots=True)
class FitReport:
    """How well a model ranks candidates that it was not trained on (a fixed fifth of each Task's).

    Attributes:
        samples, failed, tasks: what it was trained on, the held-out part included.
        held_out: candidates of the held-out part.
        pairwise_accuracy, peak_at_1, peak_at_5: means over Tasks; None while no Task has enough held out.
    """

    samples: int
    failed: int
    tasks: int
    held_out: int
    pairwise_accuracy: float | None
    peak_at_1: float | None
    peak_at_5: float | None

    def json(self) -> dict[str, Any]:
        """Every field by name."""
        return asdict(self)


class CostModel(Protocol):
    """Deterministic under its seed: equal groups in equal order give equal predictions. Not thread-safe."""

    def fit(self, groups: Sequence[Group]) -> None:
        """Train from scratch; only differences within a Task count, failures as the slowest."""
        ...

    def rehearse(self, groups: Sequence[Group]) -> FitReport:
        """How well a model trained on all but the held-out part ranks that part; what `predict` says is unchanged."""
        ...

    def predict(self, task: Task, candidates: Sequence[Candidate]) -> NDArray[np.float64] | None:
        """Merit, larger is better, shape (n_candidates,); None where nothing predicts before the first fit."""
        ...
