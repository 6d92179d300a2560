"""Instant mode: Schedules that the shipped cost model chooses, without measuring anything.

Of the default, the assignments where the rules begin, and uniform samples, the one with the best score is taken where
the model is sure that it beats the default: its score is higher by more than a margin, which held-out Tasks taught
(tuner.cost_model.gates). The same samples, and so the same choice, follow from Workload, Target and threads alone.

A model is asked only about what it has seen: such machines, such knobs, and algorithms whose error, measured for its
samples, is well within the Task's budget.

    lookup = Instant(model)(task, space)      a Choice, or the reason why the default serves
"""

from __future__ import annotations

import logging
import math
import random
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from compiler.errors import InputError
from compiler.schedule.schedule import Schedule
from compiler.space.space import Assignment, SearchSpace
from compiler.target import Target
from compiler.workload.specialise import nominal
from tuner.candidate import Candidate
from tuner.cost_model import shipped
from tuner.cost_model.features import FEATURE_NAMES, LEVELS, NestFeatures
from tuner.cost_model.relative import beside
from tuner.cost_model.stored import StoredModel, load_model
from tuner.cost_model.trees import scores
from tuner.task import Task

_LOG = logging.getLogger("luthier")

SAMPLES = 128
"""Candidates beside the default and where the rules begin; smaller spaces are looked through.

Ranking so many takes about as long as compiling the Task.
"""
BALANCE = 0.98
"""What shares its work out among the threads less evenly than this, beside the default, is not considered."""

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the model makes of a Task.

    Attributes:
        schedule: its choice; None where the default serves.
        reason: why the default serves, "" where it does not.
        lead: by how much the best score passed the default's.
        candidates: how many were ranked.
    """

    schedule: Schedule | None
    reason: str = ""
    lead: float = 0.0
    candidates: int = 0


class Instant:
    """Predictions of one model; keeps what the candidates of a Workload share. Not thread-safe."""

    def __init__(self, model: StoredModel) -> None:
        """Read its papers."""
        self._model = model
        margin = model.gates["margin"]
        self._margin = math.inf if margin is None else float(margin)
        self._features = NestFeatures()
        self.expected_loss = round(1 - float(model.gates["instant"]["value"]), 3)

    def __call__(self, task: Task, space: SearchSpace) -> Prediction:
        """Choose; `space`: of the Task, whose Workload may have symbols."""
        if why := self._unknown(task, space):
            return Prediction(None, why)
        candidates = self._candidates(task, space)
        if len(candidates) < 2:
            return Prediction(None, "there is nothing to choose", 0.0, len(candidates))
        sizes = Task(nominal(task.workload), task.target, task.threads, task.weight, task.name)
        found = self._scores(sizes, candidates)
        best, lead = int(np.argmax(found)), float(found.max() - found[0])
        if best == 0:
            return Prediction(None, "the model prefers the default", lead, len(candidates))
        if not lead > self._margin:
            return Prediction(
                None, f"the model is not sure: {lead:.2f} of {self._margin:.2f}", lead, len(candidates)
            )
        return Prediction(candidates[best].schedule, "", lead, len(candidates))

    def _unknown(self, task: Task, space: SearchSpace) -> str:
        seen = self._model.seen
        if not self._model.knows(task.target):
            return f"the model has seen no target with the vectors of {task.target.name}"
        if task.threads not in seen.threads and 1 not in seen.threads:
            return f"the model has seen no team of {task.threads} threads"
        names = {knob.name for knob in space.knobs} - _SHARING
        if strange := sorted(names - seen.knobs):
            return f"the model has seen no space with {', '.join(strange)}"
        return ""

    def _candidates(self, task: Task, space: SearchSpace) -> list[Candidate]:
        """The default first; those whose algorithm is not known to be accurate enough are left out."""
        made = (Candidate(space.schedule(a), a) for a in _assignments(space, task.workload.digest))
        default = next(made)
        seen = self._model.seen
        return [default, *(c for c in made if seen.is_accurate(c.schedule, task.error_budget))]

    def _scores(self, task: Task, candidates: list[Candidate]) -> Array:
        """Merit of each; -inf for what cannot be told, and for what keeps threads waiting."""
        rows = self._features(task, candidates)
        known = ~np.isnan(rows).any(axis=1)
        if task.threads not in self._model.seen.threads:
            known &= rows[:, _BALANCE] >= BALANCE * rows[0, _BALANCE]
            rows = on_one_thread(rows, task.target, task.threads)
        return np.where(known, scores(self._model.booster, beside(rows, rows[0])), -np.inf)


@cache
def shipped_model() -> Instant | None:
    """The model that the package brings; None where there is none, or none for these rules, which is said once."""
    if not shipped.SHIPPED.exists():
        return None
    try:
        return Instant(load_model(shipped.SHIPPED))
    except InputError as refused:
        _LOG.warning("what was never tuned gets the default schedule: %s", refused)
        return None


def on_one_thread(rows: Array, target: Target, threads: int) -> Array:
    """Features as they would be with the whole machine for one thread; shape (n_candidates, n_features)."""
    rows = rows.copy()
    whole, share = np.log2(target.l3_bytes + 1), np.log2(max(1, target.l3_bytes // threads) + 1)
    rows[:, FEATURE_NAMES.index("machine_threads")] = 1.0
    rows[:, FEATURE_NAMES.index("machine_l3")] = whole
    for level in range(1, LEVELS + 1):
        over = FEATURE_NAMES.index(f"level{level}_over_l3")
        there = rows[:, FEATURE_NAMES.index(f"level{level}_trips")] > 0
        rows[there, over] -= whole - share
    rows[:, FEATURE_NAMES.index("parallel_per_thread")] = rows[:, FEATURE_NAMES.index("parallel_extent")]
    rows[:, _BALANCE] = 1.0
    return rows


_BALANCE = FEATURE_NAMES.index("parallel_balance")
_SHARING = frozenset({"parallel"})
"""Knobs that only say which loops are shared out: one thread has none of them."""


def _assignments(space: SearchSpace, seed: str) -> dict[Assignment, None]:
    """The default, where the rules begin, and samples, in this order."""
    found = dict.fromkeys((space.default, *space.starts))
    if space.size <= SAMPLES:
        return found | dict.fromkeys(space.enumerate(SAMPLES))
    rng = random.Random(seed)
    return found | dict.fromkeys(space.sample(rng) for _ in range(SAMPLES))
