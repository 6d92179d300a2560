"""How good a ranking is. Scores: larger is better. Throughputs: relative to the best, 0 where a candidate failed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def relative_throughput(times_s: Sequence[float | None]) -> Array:
    """The best time over each time of one Task, 0 for None (failed); shape (n,)."""
    known = [t for t in times_s if t is not None]
    best = min(known, default=1.0)
    return np.array([0.0 if t is None else best / t for t in times_s], dtype=np.float64)


def pairwise_accuracy(scores: Array, throughput: Array, gap: float = 0.0) -> float | None:
    """Share of pairs that the scores put in the right order (a tie counts half), of those that differ by `gap`."""
    first, second = np.triu_indices(len(throughput), 1)
    truth = np.sign(throughput[first] - throughput[second])
    guess = np.sign(scores[first] - scores[second])
    slower = np.minimum(throughput[first], throughput[second])
    differ = (truth != 0) & (np.maximum(throughput[first], throughput[second]) > (1 + gap) * slower)
    if not differ.any():
        return None
    return float(np.mean(0.5 + 0.5 * (truth * guess)[differ]))


def peak_at(scores: Array, throughput: Array, count: int) -> float | None:
    """Best throughput among the `count` best scores, as a share of the best of all; None where all failed."""
    best = float(throughput.max(initial=0.0))
    if best == 0.0:
        return None
    chosen = np.argsort(-scores, kind="stable")[:count]
    return float(throughput[chosen].max() / best)


def mean_over_tasks(
    metric: Callable[[Array, Array], float | None], groups: Sequence[tuple[Array, Array]]
) -> float | None:
    """Mean of a metric over (scores, throughput) per Task; None where no Task has one."""
    values = [value for value in (metric(s, t) for s, t in groups) if value is not None]
    return float(np.mean(values)) if values else None
