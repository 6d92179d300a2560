"""LiveSearch: the tuner's own search goes on from a pool, so that the best that is known is one that it would find."""

from __future__ import annotations

from benchmarks.search.pools import PoolFile, Row
from compiler.space.space import Assignment
from tuner.candidate import Candidate
from tuner.cost_model.protocol import Group
from tuner.cost_model.relative import NAMES, RelativeFeatures
from tuner.cost_model.shipped import SHIPPED
from tuner.cost_model.stored import load_model
from tuner.cost_model.xgboost_model import XGBoostModel
from tuner.measure import FailureKind, Measured, MeasureFailed, MeasureResult
from tuner.search.evolutionary import EvolutionaryStrategy

TAUGHT_AGAIN = 100
"""The trees are trained again when the pool has grown by so many rows."""


class LiveSearch:
    """Evolution under the shipped trees, which learn the pool's own rows."""

    def __init__(self, file: PoolFile) -> None:
        """Nothing is read from the pool before the first proposals."""
        prior = load_model(SHIPPED).booster if SHIPPED.exists() else None
        self._file = file
        self._model = XGBoostModel(RelativeFeatures(), NAMES, prior=prior)
        self._strategy = EvolutionaryStrategy(
            file.space, lambda candidates: self._model.predict(file.task, candidates)
        )
        self._observed = self._taught = 0

    def propose(self, count: int) -> list[Assignment]:
        """At most `count` assignments that the pool has not; fewer, or none, where the space holds nothing new."""
        new = self._file.rows[self._observed :]
        self._strategy.observe([self._candidate(row) for row in new], [_result(row) for row in new])
        self._observed += len(new)
        if not self._taught or self._observed >= self._taught + TAUGHT_AGAIN:
            self._teach()
        proposed = self._strategy.propose(count)
        return [candidate.assignment for candidate in proposed if candidate.assignment is not None]

    def _teach(self) -> None:
        rows = self._file.rows
        group = Group(self._file.task, tuple(map(self._candidate, rows)), tuple(map(_result, rows)))
        self._model.fit([group])
        self._taught = len(rows)

    def _candidate(self, row: Row) -> Candidate:
        return Candidate(self._file.space.schedule(row.assignment), row.assignment)


def _result(row: Row) -> MeasureResult:
    if row.seconds is None:
        return MeasureFailed(FailureKind(row.failure), "failed when the pool was recorded")
    return Measured((row.seconds,), row.error)
