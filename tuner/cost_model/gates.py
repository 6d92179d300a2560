"""Gates: how well trees rank candidates of networks that they have not seen.

Each network is left out in turn, the trees are trained on the others and judged on its Tasks. Pairs of nearly equal
candidates tell nothing and do not count. Intervals are those of 2,000 resamples of the Tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tuner.cost_model.metrics import pairwise_accuracy, peak_at
from tuner.cost_model.trees import Array, XGBoostOptions, scores, train

GAP = 0.03
"""Candidates of a pair differ by more than this."""
BARS = {"pairwise_accuracy": 0.93, "peak_at_1": 0.92, "peak_at_5": 0.96}
_RESAMPLES = 2000
_BOUNDS = (2.5, 97.5)


@dataclass(frozen=True)
class TaskSamples:
    """Measured candidates of one Task: features, and throughput relative to the best (0: failed).

    `usual`: throughput of the analytic default.
    """

    network: str
    task: str
    features: Array
    throughput: Array
    usual: float


@dataclass(frozen=True, slots=True)
class Figure:
    """A mean over Tasks and the bounds that 95 % of the resampled ones keep."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f}..{self.high:.3f})"


@dataclass(frozen=True, slots=True)
class Gates:
    """The figures, all over the same Tasks; `usual`: what the analytic default reaches without any model."""

    tasks: int
    samples: int
    networks: int
    pairwise_accuracy: Figure
    peak_at_1: Figure
    peak_at_5: Figure
    usual: Figure

    @property
    def missed(self) -> list[str]:
        """Names of the figures below their bar."""
        return [name for name, bar in BARS.items() if getattr(self, name).value < bar]

    def json(self) -> dict[str, Any]:
        """Every field by name."""
        return asdict(self)


def held_out(
    tasks: Sequence[TaskSamples], options: XGBoostOptions | None = None, columns: Sequence[int] | None = None
) -> Gates | None:
    """The figures of trees that see `columns` of the features (None: all); None with fewer than two networks."""
    networks = sorted({task.network for task in tasks})
    if len(networks) < 2:
        return None
    seen = slice(None) if columns is None else list(columns)
    judged: list[tuple[Array, TaskSamples]] = []
    for network in networks:
        others = [(t.features[:, seen], t.throughput) for t in tasks if t.network != network]
        booster = train(others, options or XGBoostOptions())
        if booster is not None:
            judged += [(scores(booster, t.features[:, seen]), t) for t in tasks if t.network == network]
    return Gates(
        tasks=len(tasks),
        samples=sum(len(task.throughput) for task in tasks),
        networks=len(networks),
        pairwise_accuracy=_figure(judged, lambda s, t: pairwise_accuracy(s, t.throughput, GAP)),
        peak_at_1=_figure(judged, lambda s, t: peak_at(s, t.throughput, 1)),
        peak_at_5=_figure(judged, lambda s, t: peak_at(s, t.throughput, 5)),
        usual=_figure(judged, lambda s, t: t.usual),
    )


def _figure(
    judged: Sequence[tuple[Array, TaskSamples]], metric: Callable[[Array, TaskSamples], float | None]
) -> Figure:
    values = np.array([v for v in (metric(s, t) for s, t in judged) if v is not None])
    if not len(values):
        return Figure(0.0, 0.0, 0.0)
    picks = np.random.default_rng(0).integers(0, len(values), (_RESAMPLES, len(values)))
    low, high = np.percentile(values[picks].mean(axis=1), _BOUNDS)
    return Figure(float(values.mean()), float(low), float(high))
