from __future__ import annotations

import random

import numpy as np
import pytest

from compiler.space.rules import build_space
from compiler.target import PRESETS
from tests.tuner import toy
from tuner.candidate import Candidate
from tuner.cost_model.features import FEATURE_NAMES, NestFeatures
from tuner.cost_model.relative import NAMES, RelativeFeatures
from tuner.task import Task

TASK = Task(toy.matmul(100, 72, 40), PRESETS["x86-64-v3"], 1, 1, "matmul")


def test_a_row_is_the_candidate_alone_and_beside_the_default() -> None:
    space, rng = build_space(TASK.workload, TASK.target, 1), random.Random(0)
    default, other = Candidate(space.schedule(space.default)), Candidate(space.schedule(space.sample(rng)))
    rows, alone = RelativeFeatures()(TASK, [default, other]), NestFeatures()(TASK, [default, other])
    assert rows.shape == (2, len(NAMES))
    np.testing.assert_array_equal(rows[:, : len(FEATURE_NAMES)], alone)
    beside = dict(zip(NAMES[len(FEATURE_NAMES) :], rows[1, len(FEATURE_NAMES) :], strict=True))
    np.testing.assert_allclose(rows[0, len(FEATURE_NAMES) :], 0.0, atol=1e-12)
    both = dict(zip(FEATURE_NAMES, alone[1] - alone[0], strict=True))
    expected = {f"beside_{name}": value for name, value in both.items() if not name.startswith("machine_")}
    assert beside == pytest.approx(expected, abs=1e-12)
