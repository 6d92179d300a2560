"""Replay: a strategy and a cost model search a pool; what they ask for is answered from it, at once.

The space that a strategy sees holds the pool's candidates and nothing else, so that every strategy and every seed can
be repeated, and "the best known" is the same for all of them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import xgboost as xgb
from numpy.typing import NDArray

from benchmarks.search.pools import Pool, pool_space
from compiler.space.space import Assignment, SearchSpace
from tuner.candidate import Candidate
from tuner.cost_model.features import FEATURE_NAMES, NestFeatures
from tuner.cost_model.learner import Learner
from tuner.cost_model.xgboost_model import XGBoostModel
from tuner.measure import FailureKind, Measured, MeasureFailed, MeasureResult
from tuner.phases import PhaseClock
from tuner.search.strategies import RANKED, make_strategy

BATCH = 8
_NEAR = 8

Curve = NDArray[np.float64]


@dataclass(frozen=True)
class PoolSpace(SearchSpace):
    """A SearchSpace of which only the pool's assignments are legal. `pool`: in the order of the sampler."""

    pool: tuple[Assignment, ...] = ()

    @property
    def size(self) -> int:
        """Assignments of the pool."""
        return len(self.pool)

    def is_legal(self, assignment: Assignment) -> bool:
        """Whether the pool has it."""
        return assignment in self.pool

    def sample(self, rng: random.Random, tries: int = 200) -> Assignment:
        """Any of the pool."""
        return rng.choice(self.pool)

    def mutate(self, assignment: Assignment, rng: random.Random, tries: int = 50) -> Assignment:
        """One of the pool's nearest, by the number of knobs that differ."""
        others = sorted(self.pool, key=lambda o: sum(a != b for a, b in zip(assignment, o, strict=True)))
        return rng.choice(others[1 : 1 + _NEAR] or [assignment])

    def enumerate(self, limit: int) -> Iterator[Assignment]:
        """The pool in its order."""
        return iter(self.pool[:limit])


def replay(
    pool: Pool, strategy: str, seed: int, trials: int, extract: NestFeatures, prior: xgb.Booster | None = None
) -> Curve:
    """Best throughput so far relative to the pool's best, after 1 to `trials` trials; shape (trials,).

    The default comes first, as in a session. `prior`: trees that the cost model begins with.
    """
    space, times = _space(pool), {row.assignment: row.seconds for row in pool.rows}
    model = XGBoostModel(extract, FEATURE_NAMES, prior=prior) if strategy in RANKED else None
    learner = Learner(model, PhaseClock(lambda: 0.0))
    first = [Candidate(space.schedule(space.default), space.default)]
    searching = make_strategy(strategy, space, learner.scorer(pool.task), seed, first)
    best, curve = np.inf, list[float]()
    while len(curve) < trials and (batch := searching.propose(min(BATCH, trials - len(curve)))):
        results = [_result(times[c.assignment or ()]) for c in batch]
        for result in results:
            best = min(best, result.median_s) if isinstance(result, Measured) else best
            curve.append(pool.best_s / best)
        searching.observe(batch, results)
        learner.observe(pool.task, list(zip(batch, results, strict=True)))
        learner.train_if_due()
    return np.array(curve + [curve[-1]] * (trials - len(curve)))


def candidates(pool: Pool) -> list[Candidate]:
    """The pool's, in order."""
    space = pool_space(pool)
    return [Candidate(space.schedule(row.assignment), row.assignment) for row in pool.rows]


def trials_to(curves: Sequence[Curve], share: float) -> int | None:
    """Trials after which the mean over seeds reaches a share of the best; None where it does not."""
    reached = np.nonzero(np.mean(curves, axis=0) >= share)[0]
    return int(reached[0]) + 1 if len(reached) else None


def _space(pool: Pool) -> PoolSpace:
    space = pool_space(pool)
    return PoolSpace(
        space.knobs, space.default, space.legal, space.build, pool=tuple(row.assignment for row in pool.rows)
    )


def _result(seconds: float | None) -> MeasureResult:
    if seconds is None:
        return MeasureFailed(FailureKind.BUILD, "failed when the pool was recorded")
    return Measured((seconds,), 0.0)
