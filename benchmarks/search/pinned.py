"""A Runner that stays on one core: what moves from one to another meets cold caches in the middle of a sample."""

from __future__ import annotations

import os
from collections.abc import Sequence

from tuner.measure import Built, MeasureResult, Runner
from tuner.task import Task

_CORES = os.sched_getaffinity(0)


def last_core() -> set[int]:
    """The one to measure on."""
    return {max(_CORES)}


def other_cores() -> set[int]:
    """Those to build on meanwhile."""
    return _CORES - last_core()


class PinnedRunner:
    """A Runner whose processes run on some cores: they are started by the thread that asks for them."""

    def __init__(self, runner: Runner, cores: set[int]) -> None:
        """Closing it closes the Runner."""
        self._runner, self._cores = runner, cores

    @property
    def device(self) -> str:
        """Name of the Device."""
        return self._runner.device

    def run(self, task: Task, built: Sequence[Built], pacer: Built | None = None) -> list[MeasureResult]:
        """Measure all; one result per input."""
        os.sched_setaffinity(0, self._cores)
        return self._runner.run(task, built, pacer)

    def compare(self, task: Task, built: Sequence[Built]) -> list[MeasureResult]:
        """Measure all in turns."""
        os.sched_setaffinity(0, self._cores)
        return self._runner.compare(task, built)

    def close(self) -> None:
        """Stop its processes."""
        self._runner.close()
