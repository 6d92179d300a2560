"""Learner: collects results, decides when the cost model is trained again, and answers a strategy's questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.candidate import Candidate
from tuner.cost_model.protocol import CostModel, Group
from tuner.measure import MeasureResult
from tuner.phases import PhaseClock
from tuner.search.protocol import Scorer
from tuner.task import RecordKey, Task

GROWTH = 1.5
"""The model is trained again when the data have grown by so much."""
MINIMUM = 8
"""Fewer samples are not worth a first training: the first batch is."""


class Learner:
    """The data of a CostModel, by Task in the order of first results. Without a model it learns and knows nothing."""

    def __init__(self, model: CostModel | None, clock: PhaseClock) -> None:
        """Training and predicting count as phase "model" of the clock."""
        self._model = model
        self._clock = clock
        self._groups: dict[RecordKey, Group] = {}
        self._samples = 0
        self._trained_on = 0

    def observe(self, task: Task, batch: Sequence[tuple[Candidate, MeasureResult]]) -> None:
        """Add results of one Task."""
        if self._model is None or not batch:
            return
        known = self._groups.get(task.key, Group(task, (), ()))
        candidates, results = tuple(c for c, _ in batch), tuple(r for _, r in batch)
        self._groups[task.key] = Group(task, known.candidates + candidates, known.results + results)
        self._samples += len(batch)

    def train_if_due(self) -> bool:
        """Train where the data have grown enough; whether it did."""
        if self._model is None or self._samples < max(MINIMUM, self._trained_on * GROWTH):
            return False
        with self._clock.phase("model"):
            self._model.fit(list(self._groups.values()))
        self._trained_on = self._samples
        return True

    def scorer(self, task: Task) -> Scorer:
        """The model's merit of candidates of a Task; None while it knows nothing."""

        def score(candidates: Sequence[Candidate]) -> NDArray[np.float64] | None:
            if self._model is None:
                return None
            with self._clock.phase("model"):
                return self._model.predict(task, candidates)

        return score

    def report(self) -> dict[str, Any]:
        """How well the model ranks what it was not trained on, by field; empty where none was trained."""
        if self._model is None or not self._trained_on:
            return {}
        with self._clock.phase("model"):
            return self._model.rehearse(list(self._groups.values())).json()
