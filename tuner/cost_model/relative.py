"""Features of candidates and of how they differ from the analytic default of their Task.

Where a candidate stands beside the default says more about a Task that was never seen than where it stands alone: the
default is near the best for most, and what it does badly it does badly for all Tasks of a kind.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from compiler.space.rules import build_space
from tuner.candidate import Candidate
from tuner.cost_model.features import FEATURE_NAMES, NestFeatures
from tuner.task import Task

Array = NDArray[np.float64]

_OWN = [i for i, name in enumerate(FEATURE_NAMES) if not name.startswith("machine_")]
"""Columns in which the candidates of a Task can differ."""
NAMES: tuple[str, ...] = (*FEATURE_NAMES, *(f"beside_{FEATURE_NAMES[i]}" for i in _OWN))
"""One name per column."""


class RelativeFeatures:
    """A FeatureExtractor; keeps what the candidates of a Task share."""

    def __init__(self) -> None:
        self._alone = NestFeatures()
        self._defaults: dict[tuple[str, str, int], Array] = {}

    def __call__(self, task: Task, candidates: Sequence[Candidate]) -> Array:
        """Shape (n_candidates, len(NAMES)); a row of NaN where the Schedule is illegal."""
        return beside(self._alone(task, candidates), self._default(task))

    def _default(self, task: Task) -> Array:
        key = (task.workload.digest, task.target.digest, task.threads)
        if key not in self._defaults:
            space = build_space(task.workload, task.target, task.threads)
            (self._defaults[key],) = self._alone(task, [Candidate(space.schedule(space.default))])
        return self._defaults[key]


def beside(rows: Array, default: Array) -> Array:
    """Rows of FEATURE_NAMES, shape (n, n_features), as rows of NAMES; `default`: that of the Task, alone."""
    return np.hstack([rows, rows[:, _OWN] - default[_OWN]])
