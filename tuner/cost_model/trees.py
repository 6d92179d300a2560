"""Gradient-boosted trees that rank the candidates of a Task: training, and a form that can be stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xgboost as xgb
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class XGBoostOptions:
    """Parameters of the trees.

    Attributes:
        columns: share of the features that a tree may look at, so that trees do not all lean on the same few.
        pairs: how many of the top of a Task are compared with all the rest, in each round.
    """

    rounds: int = 100
    depth: int = 5
    columns: float = 0.5
    learning_rate: float = 0.1
    bins: int = 64
    pairs: int = 64
    seed: int = 0


def train(
    parts: Sequence[tuple[Array, Array]], options: XGBoostOptions, prior: xgb.Booster | None = None
) -> xgb.Booster | None:
    """Trees on (features, relevance) per Task, added to those of `prior`; None where no Task tells two apart."""
    parts = [(x, y) for x, y in parts if len(y) > 1 and y.min() < y.max()]
    if not parts:
        return prior
    data = xgb.DMatrix(
        np.vstack([x for x, _ in parts]),
        np.concatenate([y for _, y in parts]),
        qid=np.repeat(np.arange(len(parts)), [len(y) for _, y in parts]),
        nthread=1,
    )
    parameters = {
        "objective": "rank:pairwise",
        "lambdarank_pair_method": "topk",
        "lambdarank_num_pair_per_sample": options.pairs,
        "tree_method": "hist",
        "max_bin": options.bins,
        "max_depth": options.depth,
        "colsample_bytree": options.columns,
        "eta": options.learning_rate,
        # The ranking objective's second derivatives are far below 1: the usual limit would forbid every
        # split while data are few.
        "min_child_weight": 0.1,
        "nthread": 1,
        "seed": options.seed,
        "verbosity": 0,
    }
    return xgb.train(parameters, data, options.rounds, xgb_model=prior)


def scores(booster: xgb.Booster, features: Array) -> Array:
    """Merit of each row, larger is better."""
    return np.asarray(booster.predict(xgb.DMatrix(features, nthread=1)), dtype=np.float64)
