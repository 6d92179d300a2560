"""Whether a tuned model is published: only where it is right, and faster than the untuned one beyond doubt."""

from __future__ import annotations

import random

import pytest

from compiler.target import native_target
from service.jobs.job import JobSpec
from service.jobs.tune import _comparison
from workers.end_to_end import Compared

ROUNDS = 40


def compared(scale: float, seed: int, rounds: int = ROUNDS, error: float = 0.0) -> Compared:
    """Runs of about a millisecond, times `scale`, that differ by a few percent."""
    rng = random.Random(seed)
    samples = [1e-3 * scale * rng.uniform(0.97, 1.03) for _ in range(rounds)]
    return {"samples_s": samples, "max_relative_error": error, "kernels_s": {}}


@pytest.mark.parametrize(
    ("scale", "rounds", "error", "published"),
    [
        (0.9, ROUNDS, 1e-6, True),
        (1.0, ROUNDS, 1e-6, False),
        (1.1, ROUNDS, 1e-6, False),
        (0.9, 3, 1e-6, False),
        (0.9, ROUNDS, 1e-2, False),
        (0.9, ROUNDS, float("inf"), False),
    ],
)
def test_what_is_published(scale: float, rounds: int, error: float, *, published: bool) -> None:
    spec = JobSpec("0" * 64, native_target(), 1)
    found = {"untuned": compared(1.0, 1, rounds), "tuned": compared(scale, 2, rounds, error)}
    comparison = _comparison(spec, found)
    assert comparison.published is published
    assert comparison.faster[0] <= comparison.untuned_s / comparison.tuned_s <= comparison.faster[1]
