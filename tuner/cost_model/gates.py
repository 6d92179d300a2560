"""Gates: how well trees rank candidates of networks that they have not seen, and what they would choose unmeasured.

Each network is left out in turn, the trees are trained on the others and judged on its Tasks. Pairs of nearly equal
candidates tell nothing and do not count. Intervals are those of 2,000 resamples of the Tasks; where two models are
compared, of the differences on the Tasks that both were judged on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import xgboost as xgb
from numpy.typing import NDArray

from tuner.cost_model.metrics import pairwise_accuracy, peak_at
from tuner.cost_model.relative import NAMES
from tuner.cost_model.trees import POOLED, Array, XGBoostOptions, base_of, merit_of, scores, train
from tuner.interval import RESAMPLES, Interval

GAP = 0.03
"""Candidates of a pair differ by more than this."""
BARS = {"pairwise_accuracy": 0.93, "peak_at_1": 0.92, "peak_at_5": 0.96, "instant": 0.92}
MARGINS = tuple(np.round(np.arange(0.1, 1.001, 0.02), 2).tolist())
"""By how much a candidate's score, a logarithm of throughput, has to pass the default's: what is tried.

Trials order candidates as networks do but for several percent (docs/decisions/0038): less of a lead is none in there.
"""
SURE = 2.0
"""Standard errors that a gain has to pass."""
SLOWER = 0.05
"""A choice that takes so much longer than the default is worse."""


@dataclass(frozen=True)
class TaskSamples:
    """Measured candidates of one Task.

    Attributes:
        key: tells it from others, in any training run.
        features: shape (n_candidates, n_features).
        throughput: relative to the best of all, 0 where it failed.
        offered: what the uniform sampler gave, and where the rules begin; others were found by searching.
        accurate: what instant mode may take, by what is known of its algorithm.
        default: place of the analytic default.
        group: what is left out together; the network, or the kind of machine.
        judged: whether the figures are of it too; else it only teaches.
    """

    group: str
    key: str
    features: Array
    throughput: Array
    offered: NDArray[np.bool_]
    accurate: NDArray[np.bool_]
    default: int
    judged: bool = True

    @property
    def verified(self) -> NDArray[np.bool_]:
        """What was offered and gave right results."""
        return self.offered & (self.throughput > 0)


@dataclass(frozen=True, slots=True)
class Gates:
    """The figures, all over the same Tasks.

    Attributes:
        pairwise_accuracy, peak_at_1, peak_at_5: of the uniform samples of a Task that were verified.
        instant: throughput of what instant mode would take, over that of the best of all.
        usual: throughput of the analytic default, likewise.
        prediction: pairwise accuracy of the predicted cycles alone, which the trees correct.
        worse: share of the Tasks where instant mode's choice is slower than the default by more than SLOWER.
        margin: by how much a score has to pass the default's; None where no choice is better than the default.
        by_task: the figures of each Task, by its key.
    """

    tasks: int
    samples: int
    groups: int
    pairwise_accuracy: Interval
    peak_at_1: Interval
    peak_at_5: Interval
    instant: Interval
    usual: Interval
    prediction: Interval
    worse: float
    margin: float | None
    by_task: Mapping[str, Mapping[str, float]]

    @property
    def missed(self) -> list[str]:
        """Names of the figures below their bar."""
        return [name for name, bar in BARS.items() if getattr(self, name).value < bar]

    def json(self) -> dict[str, Any]:
        """Every field by name."""
        return asdict(self)


@dataclass(frozen=True)
class _Judged:
    """A Task that was left out, what the others' trees say of it, and what the prediction alone says."""

    task: TaskSamples
    scores: Array
    predicted: Array

    def over(self, metric: Callable[[Array, Array], float | None]) -> float | None:
        """A metric of the uniform samples that were verified."""
        return metric(self.scores[self.task.verified], self.task.throughput[self.task.verified])

    @property
    def usual(self) -> float:
        """Throughput of the default."""
        return float(self.task.throughput[self.task.default])

    def instant(self, margin: float | None) -> float:
        """Throughput of what is taken without measuring."""
        best, default = self._first, self.task.default
        sure = margin is not None and self.scores[best] - self.scores[default] > margin
        return float(self.task.throughput[best if sure else default])

    @cached_property
    def _first(self) -> int:
        """Place of the best score."""
        return int(np.argmax(np.where(self.task.offered & self.task.accurate, self.scores, -np.inf)))


def held_out(
    tasks: Sequence[TaskSamples],
    options: XGBoostOptions | None = None,
    columns: Sequence[int] | None = None,
    taught: Sequence[TaskSamples] | None = None,
    trees: Mapping[str, xgb.Booster | None] | None = None,
) -> Gates | None:
    """The figures of trees that see `columns` of the features (None: all); None with fewer than two groups.

    taught: what the trees learn from, where that is not the samples that they are judged by.
    trees: as `left_out` gives them, of all features, where they are there already.
    """
    found = left_out(tasks, options, columns, taught) if trees is None else trees
    if len(found) < 2:
        return None
    seen = _columns(columns)
    base = base_of([NAMES[column] for column in seen])
    judged: list[_Judged] = []
    for group, booster in found.items():
        if booster is not None:
            for task in (t for t in tasks if t.judged and t.group == group):
                rows = task.features[:, seen]
                judged.append(_Judged(task, scores(booster, rows), merit_of(rows, base)))
    by_task, margin = _by_task(judged)
    figures = {
        name: figure_of([f[name] for f in by_task.values() if name in f])
        for name in (*BARS, "usual", "prediction")
    }
    ratios = [f["instant"] / f["usual"] for f in by_task.values() if f["usual"]]
    return Gates(
        tasks=len(tasks),
        samples=sum(len(task.throughput) for task in tasks),
        groups=len(found),
        worse=float(np.mean([ratio < 1 / (1 + SLOWER) for ratio in ratios])) if ratios else 0.0,
        margin=margin,
        by_task=by_task,
        **figures,
    )


def left_out(
    tasks: Sequence[TaskSamples],
    options: XGBoostOptions | None = None,
    columns: Sequence[int] | None = None,
    taught: Sequence[TaskSamples] | None = None,
) -> dict[str, xgb.Booster | None]:
    """Trees by the group whose samples they have not seen, of all that are judged; the arguments are `held_out`'s."""
    seen = _columns(columns)
    base = base_of([NAMES[column] for column in seen])
    return {
        group: train(
            [(t.features[:, seen], t.throughput) for t in taught or tasks if t.group != group],
            options or POOLED,
            base=base,
        )
        for group in sorted({task.group for task in tasks if task.judged})
    }


def _columns(columns: Sequence[int] | None) -> list[int]:
    return list(range(len(NAMES)) if columns is None else columns)


def differences(new: Gates, kept: Mapping[str, Mapping[str, float]], name: str) -> Interval | None:
    """By how much a figure is better than another model's, on the Tasks that both have; None without any."""
    both = [
        (figures[name], kept[key][name])
        for key, figures in new.by_task.items()
        if name in figures and name in kept.get(key, {})
    ]
    return figure_of([now - before for now, before in both]) if both else None


def figure_of(values: Sequence[float]) -> Interval:
    """Mean and interval of one value per Task."""
    if not values:
        return Interval(0.0, 0.0, 0.0)
    array = np.array(values)
    picks = np.random.default_rng(0).integers(0, len(array), (RESAMPLES, len(array)))
    return Interval.of(array.mean(), array[picks].mean(axis=1))


def _by_task(judged: Sequence[_Judged]) -> tuple[dict[str, dict[str, float]], float | None]:
    """The figures of each Task, and the margin; None where margins that other groups gave have made choices worse."""
    margin = _margin(judged)
    found = {
        j.task.key: _figures(j, _margin([o for o in judged if o.task.group != j.task.group])) for j in judged
    }
    if sum(f["instant"] - f["usual"] for f in found.values()) >= 0:
        return found, margin
    return {j.task.key: _figures(j, None) for j in judged}, None


def _figures(judged: _Judged, margin: float | None) -> dict[str, float]:
    """Figures of a Task, instant mode's with the margin that the other groups' Tasks give."""
    task = judged.task
    found = {
        "pairwise_accuracy": judged.over(lambda s, y: pairwise_accuracy(s, y, GAP)),
        "peak_at_1": judged.over(lambda s, y: peak_at(s, y, 1)),
        "peak_at_5": judged.over(lambda s, y: peak_at(s, y, 5)),
        "instant": judged.instant(margin),
        "usual": judged.usual,
        "prediction": pairwise_accuracy(judged.predicted[task.verified], task.throughput[task.verified], GAP),
    }
    return {name: value for name, value in found.items() if value is not None}


def _margin(judged: Sequence[_Judged]) -> float | None:
    """The margin of the largest gain over the default that is a gain beyond doubt, the middle of equals.

    None where there is none: a choice that is as good as the default on the average is worse on many Tasks. Nor does a
    margin do that lets through a choice which is slower than the default by more than SLOWER.
    """
    sure: dict[float, float] = {}
    for margin in MARGINS:
        gains = [j.instant(margin) - j.usual for j in judged]
        slower = any(j.instant(margin) < j.usual / (1 + SLOWER) for j in judged)
        if gains and not slower:
            sure[margin] = float(np.mean(gains) - SURE * np.std(gains) / math.sqrt(len(gains)))
    most = max(sure.values(), default=0.0)
    best = [margin for margin, gain in sure.items() if gain >= most - 1e-9]
    return best[len(best) // 2] if most > 0 else None
