"""On a real local Ray cluster."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from compiler.errors import InputError
from tests.faults import planted
from tuner.measure import FailureKind, Measured, MeasureFailed, MeasureOptions
from tuner.pairs import LOOKS
from workers import ray_cluster
from workers.ray_runner import RayRunner

OPTIONS = MeasureOptions(samples=3, sample_ms=0.1, timeout_s=1.5, memory_bytes=256 << 20)
DEVICE = "bench-1"


@pytest.fixture(scope="module")
def runner() -> Iterator[RayRunner]:
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_USAGE_STATS_ENABLED"):
            patch.setenv(name, "to be restored")
            patch.delenv(name)
        runner = RayRunner(DEVICE, OPTIONS)
        yield runner
        folder = runner._cluster._folder
        assert folder is not None
        runner.close()
        assert not Path(folder).exists()
        for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_USAGE_STATS_ENABLED"):
            patch.delenv(name, raising=False)


def test_it_measures_and_names_failures(runner: RayRunner) -> None:
    good, bad = planted.planted(), planted.planted(planted.FOR_EVER)
    first, failed, last = runner.run(planted.task(), [good, bad, good])

    assert runner.device == DEVICE
    assert isinstance(first, Measured)
    assert isinstance(last, Measured)
    assert first.build_s == 0.25
    assert 1 <= len(first.samples_s) <= OPTIONS.samples
    assert isinstance(failed, MeasureFailed)
    assert failed.kind is FailureKind.TIMEOUT


def test_a_pacer_is_timed_with_them(runner: RayRunner) -> None:
    results = runner.run(planted.task(), [planted.planted()] * 2, planted.planted())

    assert len(results) == 2
    for result in results:
        assert isinstance(result, Measured)
        assert len(result.pacer_s) == len(result.samples_s)


def test_it_compares_in_turns(runner: RayRunner) -> None:
    good, bad = planted.planted(), planted.planted(planted.store("y", 9, "0.5"))
    first, failed, last = runner.compare(planted.task(), [good, bad, good])

    assert isinstance(first, Measured)
    assert isinstance(last, Measured)
    assert len(first.samples_s) == len(last.samples_s) >= LOOKS[0]
    assert isinstance(failed, MeasureFailed)
    assert failed.kind is FailureKind.WRONG_OUTPUT


def test_the_cluster_asks_for_a_token(runner: RayRunner) -> None:
    assert os.environ["RAY_AUTH_MODE"] == "token"
    assert len(os.environ["RAY_AUTH_TOKEN"]) == 64


@pytest.mark.faults
def test_a_lost_actor_is_replaced(runner: RayRunner) -> None:
    import ray

    ray.kill(ray.get_actor(f"luthier-device-{DEVICE}", namespace=ray_cluster.NAMESPACE))
    (result,) = runner.run(planted.task(), [planted.planted()])
    assert isinstance(result, Measured)


def test_a_second_runner_shares_the_actor(runner: RayRunner) -> None:
    second = RayRunner(DEVICE, OPTIONS)
    second.close()
    (result,) = runner.run(planted.task(), [planted.planted()])
    assert isinstance(result, Measured)


def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_USAGE_STATS_ENABLED"):
        monkeypatch.setenv(name, os.environ.get(name, "token"))
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"pip install luthier\[ray\]"):
        RayRunner(DEVICE)
