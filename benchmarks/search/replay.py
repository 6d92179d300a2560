"""Replay: a strategy and a cost model search a pool; what they ask for is answered from it, at once.

The space that a strategy sees holds the pool's candidates and nothing else, so that every strategy and every seed can
be repeated, and "the best known" is the same for all of them. A mutant is the candidate of the pool that is nearest to
what the mutation gives in the whole space.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import xgboost as xgb
from numpy.typing import NDArray

from benchmarks.search.pools import Pool, pool_space
from compiler.space.space import Assignment, SearchSpace
from tuner.candidate import Candidate
from tuner.cost_model.learner import Learner
from tuner.cost_model.relative import NAMES
from tuner.cost_model.xgboost_model import XGBoostModel
from tuner.measure import FailureKind, Measured, MeasureFailed, MeasureResult
from tuner.phases import PhaseClock
from tuner.search.evolutionary import EvolutionaryStrategy
from tuner.search.protocol import SearchStrategy
from tuner.search.strategies import make_strategy
from tuner.search.variation import Variation
from tuner.task import Task

BATCH = 8

Array = NDArray[np.float64]

Curve = Array


@dataclass(frozen=True)
class Replay:
    """What a search asked for, in order, and the best throughput so far relative to the pool's best after each trial.

    The curve has the shape (trials,), whether or not the pool ended before.
    """

    asked: tuple[Assignment, ...]
    curve: Curve


@dataclass(frozen=True)
class PoolSpace(SearchSpace):
    """A SearchSpace of which only the pool's assignments are legal. `pool`: in the order of the sampler."""

    pool: tuple[Assignment, ...] = ()

    @property
    def size(self) -> int:
        """Assignments of the pool."""
        return len(self.pool)

    @cached_property
    def members(self) -> frozenset[Assignment]:
        """The pool without its order."""
        return frozenset(self.pool)

    def is_legal(self, assignment: Assignment) -> bool:
        """Whether the pool has it."""
        return assignment in self.members

    def sample(self, rng: random.Random, tries: int = 200) -> Assignment:
        """Any of the pool."""
        return rng.choice(self.pool)

    def enumerate(self, limit: int) -> Iterator[Assignment]:
        """The pool in its order."""
        return iter(self.pool[:limit])


class PoolVariation(Variation):
    """Variation in the whole space, of which the nearest candidate of the pool is taken."""

    def __init__(self, space: PoolSpace, whole: SearchSpace) -> None:
        """`whole`: the space that the pool was sampled from."""
        super().__init__(whole)
        self._pool = space.pool
        last = np.array([max(1, len(knob.choices) - 1) for knob in space.knobs], dtype=np.float64)
        words = np.array([isinstance(knob.choices[0], str) for knob in space.knobs])
        self._scale = np.where(words, 1.0, 1.0 / last)
        self._words = words
        self._places = np.array(space.pool, dtype=np.float64)

    def mutate(self, assignment: Assignment, rng: random.Random) -> Assignment:
        """The nearest to a mutant, but not the parent."""
        return self._nearest(super().mutate(assignment, rng), assignment)

    def cross(self, mother: Assignment, father: Assignment, rng: random.Random) -> Assignment:
        """The nearest to a crossing, but not the mother."""
        return self._nearest(super().cross(mother, father, rng), mother)

    def nearest(self, wanted: Assignment) -> Assignment:
        """The candidate of the pool that is nearest to one of the whole space."""
        return self._pool[self._by_distance(wanted)[0]]

    def _nearest(self, wanted: Assignment, parent: Assignment) -> Assignment:
        first, *others = self._by_distance(wanted)[:2]
        nearest = self._pool[first]
        return self._pool[others[0]] if nearest == parent and others else nearest

    def _by_distance(self, wanted: Assignment) -> NDArray[np.intp]:
        """Places in the pool, the nearest first."""
        apart = np.abs(self._places - np.array(wanted))
        away = (np.where(self._words, apart > 0, apart) * self._scale).sum(axis=1)
        return np.argsort(away, kind="stable")


def replay(
    pool: Pool,
    rows: Array,
    strategy: str,
    seed: int,
    trials: int,
    prior: xgb.Booster | None = None,
    near: Sequence[Assignment] = (),
) -> Replay:
    """A search of so many trials, the default first, as in a session.

    `rows`: features of the pool's candidates, shape (n_candidates, n_features); `prior`: trees that the cost model
    begins with; `near`: of the whole space, what is tried after the default: the nearest of the pool stand for it.
    """
    whole = pool_space(pool)
    times = {row.assignment: row.seconds for row in pool.rows}
    starts = tuple(start for start in whole.starts if start in times)
    space = PoolSpace(whole.knobs, whole.default, whole.legal, whole.build, starts, pool=tuple(times))
    features = dict(zip(space.pool, rows, strict=True))

    def extract(_: Task, asked: Sequence[Candidate]) -> Array:
        return np.array([features[c.assignment or ()] for c in asked])

    variation = PoolVariation(space, whole)
    begin = dict.fromkeys((whole.default, *map(variation.nearest, near)))
    first = [Candidate(space.schedule(assignment), assignment) for assignment in begin]
    searching: SearchStrategy
    if strategy == "evolutionary":
        learner = Learner(XGBoostModel(extract, NAMES, prior=prior), PhaseClock(lambda: 0.0))
        searching = EvolutionaryStrategy(space, learner.scorer(pool.task), seed, first, variation=variation)
    else:
        learner = Learner(None, PhaseClock(lambda: 0.0))
        searching = make_strategy(strategy, space, learner.scorer(pool.task), seed, first)
    asked = list[Assignment]()
    while len(asked) < trials and (batch := searching.propose(min(BATCH, trials - len(asked)))):
        results = [_result(times[c.assignment or ()]) for c in batch]
        asked += [c.assignment or () for c in batch]
        searching.observe(batch, results)
        learner.observe(pool.task, list(zip(batch, results, strict=True)))
        learner.train_if_due()
    seconds = np.array([times[assignment] or np.inf for assignment in asked])
    curve = np.minimum(1.0, pool.best_s / np.minimum.accumulate(seconds))
    return Replay(tuple(asked), np.pad(curve, (0, trials - len(curve)), mode="edge"))


def candidates(pool: Pool) -> list[Candidate]:
    """The pool's, in order."""
    space = pool_space(pool)
    return [Candidate(space.schedule(row.assignment), row.assignment) for row in pool.rows]


def trials_to(curves: Sequence[Curve], share: float) -> int | None:
    """Trials after which the mean over seeds reaches a share of the best; None where it does not."""
    reached = np.nonzero(np.mean(curves, axis=0) >= share)[0]
    return int(reached[0]) + 1 if len(reached) else None


def _result(seconds: float | None) -> MeasureResult:
    if seconds is None:
        return MeasureFailed(FailureKind.BUILD, "failed when the pool was recorded")
    return Measured((seconds,), 0.0)
