"""The cost model: what the loops alone predict, corrected by gradient-boosted trees that learn from measured times.

Tasks of any size train one model, for only differences within a Task count. A failed candidate counts as one that is
slower than any that ran, so that the model learns what does not work as well. Before the first training the prediction
stands alone. The served model learns from all; how well it generalises is told by a rehearsal without a fixed fifth of
every Task's candidates.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np
import xgboost as xgb
from numpy.typing import NDArray

from compiler.schedule.schedule import Schedule
from tuner.candidate import Candidate
from tuner.cost_model.metrics import mean_over_tasks, pairwise_accuracy, peak_at, relative_throughput
from tuner.cost_model.protocol import FeatureExtractor, FitReport, Group
from tuner.cost_model.trees import XGBoostOptions, base_of, merit_of, scores, train
from tuner.measure import Measured
from tuner.task import Task

Array = NDArray[np.float64]
_HELD_OUT = 5
_MEMO_ROWS = 20_000
"""Features of so many candidates are kept, about 50 MB."""


@dataclass(frozen=True)
class _Table:
    """Rows of one Task: features, relevance, and which are held out."""

    features: Array
    relevance: Array
    held_out: NDArray[np.bool_]


class XGBoostModel:
    """A CostModel on trees (`trees.py`); one thread, so that equal data give equal trees."""

    def __init__(
        self,
        features: FeatureExtractor,
        names: Sequence[str],
        options: XGBoostOptions | None = None,
        prior: xgb.Booster | None = None,
    ) -> None:
        """`names`: one per column of the features; `prior`: trees to begin with, and to add to."""
        self._extract = features
        self._base = base_of(names)
        self._options = options or XGBoostOptions()
        self._memo: OrderedDict[tuple[str, str, int, Schedule], Array] = OrderedDict()
        self._prior = prior
        self._booster = prior

    def fit(self, groups: Sequence[Group]) -> None:
        """Train from scratch on all groups."""
        parts = [(t.features, t.relevance) for t in self._tables(groups)]
        self._booster = train(parts, self._options, self._prior, self._base)

    def rehearse(self, groups: Sequence[Group]) -> FitReport:
        """Train on all but the held-out part and judge the ranking of that part."""
        tables = self._tables(groups)
        parts = [(t.features[~t.held_out], t.relevance[~t.held_out]) for t in tables]
        rehearsal = train(parts, self._options, self._prior, self._base)
        return _report(tables, rehearsal)

    def predict(self, task: Task, candidates: Sequence[Candidate]) -> Array | None:
        """Merit within the Task; -inf for a candidate whose features cannot be computed.

        None where there is neither training nor a feature that predicts.
        """
        if not candidates or (self._booster is None and self._base is None):
            return None
        rows = self._rows(task, candidates)
        found = merit_of(rows, self._base) if self._booster is None else scores(self._booster, rows)
        return np.where(_has_none(rows), -np.inf, found)

    def _tables(self, groups: Sequence[Group]) -> list[_Table]:
        tables = (self._table(group) for group in groups if group.candidates)
        return [table for table in tables if len(table.relevance)]

    def _table(self, group: Group) -> _Table:
        """What is known of a Task, but for trials of the log whose Steps no longer apply: they have no features."""
        rows = self._rows(group.task, group.candidates)
        known = ~_has_none(rows)
        times = [r.median_s if isinstance(r, Measured) else None for r in compress(group.results, known)]
        held_out = [int(c.digest[:8], 16) % _HELD_OUT == 0 for c in compress(group.candidates, known)]
        return _Table(rows[known], relative_throughput(times), np.array(held_out, dtype=np.bool_))

    def _rows(self, task: Task, candidates: Sequence[Candidate]) -> Array:
        """Features, from memory where they have been asked for before; shape (n_candidates, n_features)."""
        prefix = (task.workload.digest, task.target.digest, task.threads)
        keys = [(*prefix, candidate.schedule) for candidate in candidates]
        new = {key: c for key, c in zip(keys, candidates, strict=True) if key not in self._memo}
        if new:
            self._memo.update(zip(new, self._extract(task, list(new.values())), strict=True))
        rows = np.empty((len(keys), len(self._memo[keys[0]])))
        for row, key in zip(rows, keys, strict=True):
            row[:] = self._memo[key]
            self._memo.move_to_end(key)
        while len(self._memo) > _MEMO_ROWS:
            self._memo.popitem(last=False)
        return rows


def _has_none(rows: Array) -> NDArray[np.bool_]:
    """Which rows are of candidates whose features cannot be computed."""
    return np.asarray(np.isnan(rows).all(axis=1))


def _report(tables: Sequence[_Table], rehearsal: xgb.Booster | None) -> FitReport:
    judged: list[tuple[Array, Array]] = []
    for table in tables:
        if rehearsal is not None and table.held_out.sum() > 1:
            found = scores(rehearsal, table.features[table.held_out])
            judged.append((found, table.relevance[table.held_out]))
    return FitReport(
        samples=sum(len(t.relevance) for t in tables),
        failed=sum(int((t.relevance == 0).sum()) for t in tables),
        tasks=len(tables),
        held_out=sum(int(t.held_out.sum()) for t in tables),
        pairwise_accuracy=mean_over_tasks(pairwise_accuracy, judged),
        peak_at_1=mean_over_tasks(lambda s, y: peak_at(s, y, 1), judged),
        peak_at_5=mean_over_tasks(lambda s, y: peak_at(s, y, 5), judged),
    )
