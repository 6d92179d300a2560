"""A cost model for tests, trained in a second on times that a formula of the features gives."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache

import numpy as np

from compiler.space.rules import build_space
from compiler.target import PRESETS
from tests.compiler.workloads import convolution
from tuner.candidate import Candidate
from tuner.cost_model.features import FEATURE_NAMES
from tuner.cost_model.gates import TaskSamples, held_out
from tuner.cost_model.relative import NAMES, RelativeFeatures
from tuner.cost_model.stored import Seen, StoredModel, machine_of
from tuner.cost_model.trees import XGBoostOptions, base_of, train
from tuner.task import Task

SMALL = XGBoostOptions(rounds=20, depth=5, columns=0.5, least=2, shrink=1.0)
"""For few samples without noise."""


def throughput(features: np.ndarray) -> np.ndarray:
    """Best with one row of five vectors, which no rule would begin with."""
    rows = features[:, FEATURE_NAMES.index("tile_rows")]
    vectors = features[:, FEATURE_NAMES.index("tile_vectors")]
    return np.asarray(1 / (1 + np.abs(np.log2(rows)) + np.abs(np.log2(vectors / 5))))


@cache
def formula_model(machine: str = "x86-64-v3") -> StoredModel:
    """Trees that have learned `throughput` on a few convolutions."""
    target = PRESETS[machine]
    tasks = []
    knobs: set[str] = set()
    for network, size in (("one", 14), ("one", 28), ("two", 16), ("two", 24)):
        task = Task(convolution(size, 32, 64, 3), target, 1, 1, f"conv {size}")
        space, rng = build_space(task.workload, target, 1), random.Random(size)
        knobs |= {knob.name for knob in space.knobs}
        chosen = list(dict.fromkeys([space.default, *(space.sample(rng) for _ in range(60))]))
        features = RelativeFeatures()(task, [Candidate(space.schedule(a), a) for a in chosen])
        found = throughput(features)
        everything = np.ones(len(chosen), dtype=np.bool_)
        tasks.append(
            TaskSamples(network, task.name, features, found / found.max(), everything, everything, 0)
        )
    options = replace(SMALL, rounds=100)  # the formula has nothing to do with what the loops predict
    gates = held_out(tasks, options)
    booster = train([(t.features, t.throughput) for t in tasks], options, base=base_of(NAMES))
    assert gates is not None
    assert booster is not None
    seen = Seen(frozenset({machine_of(target)}), frozenset({1}), frozenset(knobs), {}, {})
    return StoredModel(booster, 1, seen, gates.json())
