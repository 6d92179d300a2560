"""Gradient-boosted trees that rank the candidates of a Task: training, and a form that can be stored.

The trees predict how far the logarithm of a candidate's time lies from that of its predicted cycles (cost.py), both
less their means over the Task. So a few samples suffice to correct the prediction, and where there are none it stands.
A sample weighs the less the more its Task's times differ, or else the trees would learn little of Tasks whose do not.
Regression orders pairs better than XGBoost's ranking objectives do, which see that one candidate is faster and not by
how much: with noise in the times, most pairs that are nearly equal teach the opposite (docs/decisions/0023).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xgboost as xgb
from numpy.typing import NDArray

Array = NDArray[np.float64]

BASE = "cost_all"
"""The feature that the trees correct: log2 of predicted cycles."""
_FAILED = 0.5
"""Throughput of what failed, over that of the slowest that ran."""
_LEAST_SPREAD = 0.05
"""Standard deviation of the merits of a Task; where they are nearly equal, they are mostly noise."""


@dataclass(frozen=True, slots=True)
class XGBoostOptions:
    """Parameters of the trees.

    Attributes:
        columns: share of the features that a tree may look at, so that trees do not all lean on the same few.
        rows: share of the samples that it sees.
        least: samples of a leaf.
        shrink: samples without a residual that each leaf has beside its own.
        failures: whether what failed counts as slow, or not at all.
    """

    rounds: int = 150
    depth: int = 8
    columns: float = 0.5
    rows: float = 1.0
    learning_rate: float = 0.1
    bins: int = 64
    least: int = 4
    shrink: float = 3.0
    seed: int = 0
    failures: bool = True


POOLED = XGBoostOptions(rounds=800, rows=0.7, learning_rate=0.04, failures=False)
"""Of trees that many Tasks teach: more of them, each of which sees less, order what they have not seen better. A search
has few samples, of which none is to be left out. What is too inaccurate for one Task is not for another of the same
shape: trees that took it for slow thought so of both."""


def base_of(names: Sequence[str]) -> int | None:
    """The column that trees on these features correct; None where there is none, and they predict all."""
    return list(names).index(BASE) if BASE in names else None


def train(
    parts: Sequence[tuple[Array, Array]],
    options: XGBoostOptions,
    prior: xgb.Booster | None = None,
    base: int | None = None,
) -> xgb.Booster | None:
    """Trees on (features, throughput) per Task, added to those of `prior`; None where no Task tells two apart.

    `base`: as `base_of` says; the same for `prior`.
    """
    if not options.failures:
        parts = [(x[y > 0], y[y > 0]) for x, y in parts]
    parts = [(x, y) for x, y in parts if len(y) > 1 and y.min() < y.max()]
    if not parts:
        return prior
    merits = [_merit(y) for _, y in parts]
    labels = [merit - _centred(merit_of(x, base)) for merit, (x, _) in zip(merits, parts, strict=True)]
    weights = np.concatenate([np.full(len(m), 1 / max(_LEAST_SPREAD, m.std())) for m in merits])
    data = xgb.DMatrix(
        np.vstack([x for x, _ in parts]),
        np.concatenate(labels),
        weight=weights / weights.mean(),
        nthread=1,
    )
    parameters = {
        "objective": "reg:squarederror",
        "base_score": 0.0,
        "tree_method": "hist",
        "max_bin": options.bins,
        "max_depth": options.depth,
        "colsample_bytree": options.columns,
        "subsample": options.rows,
        "eta": options.learning_rate,
        "min_child_weight": options.least,
        "lambda": options.shrink,
        "nthread": 1,
        "seed": options.seed,
        "verbosity": 0,
    }
    booster = xgb.train(parameters, data, options.rounds, xgb_model=prior)
    booster.set_attr(base=None if base is None else str(base))
    return booster


def scores(booster: xgb.Booster, features: Array) -> Array:
    """Merit of each row, larger is better: the logarithm of throughput, but for a constant of the Task."""
    base = booster.attr("base")
    residual = np.asarray(booster.predict(xgb.DMatrix(features, nthread=1)), dtype=np.float64)
    return residual + merit_of(features, None if base is None else int(base))


def merit_of(features: Array, base: int | None) -> Array:
    """What the prediction alone says of each row: the logarithm of throughput, but for a constant."""
    return np.zeros(len(features)) if base is None else -math.log(2) * features[:, base]


def _merit(throughput: Array) -> Array:
    """Logarithms less their mean; what failed is slower than what ran."""
    slowest = throughput[throughput > 0].min()
    return _centred(np.log(np.maximum(throughput, _FAILED * slowest)))


def _centred(values: Array) -> Array:
    return np.asarray(values - values.mean())
