"""Learner: collects results and decides when the cost model is trained again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tuner.candidate import Candidate
from tuner.cost_model.protocol import CostModel, FitReport, Group
from tuner.measure import MeasureResult
from tuner.task import RecordKey, Task

GROWTH = 1.2
"""The model is trained again when the data have grown by so much."""
MINIMUM = 16
"""Fewer samples are not worth a first training."""


class Learner:
    """The data of a CostModel, by Task in the order of first results."""

    def __init__(self, model: CostModel) -> None:
        self.report: FitReport | None = None
        self._model = model
        self._groups: dict[RecordKey, Group] = {}
        self._samples = 0
        self._trained_on = 0

    def observe(self, task: Task, candidates: Sequence[Candidate], results: Sequence[MeasureResult]) -> None:
        """Add results of one Task."""
        known = self._groups.get(task.key, Group(task, (), ()))
        self._groups[task.key] = Group(task, (*known.candidates, *candidates), (*known.results, *results))
        self._samples += len(results)

    def train_if_due(self) -> bool:
        """Train where the data have grown enough; whether it did."""
        if self._samples < max(MINIMUM, self._trained_on * GROWTH):
            return False
        self.report = self._model.fit(list(self._groups.values()))
        self._trained_on = self._samples
        return True

    def predict(self, task: Task, candidates: Sequence[Candidate]) -> NDArray[np.float64] | None:
        """The model's merit of each candidate; None before it was trained."""
        return self._model.predict(task, candidates)
