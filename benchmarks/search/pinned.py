"""A Builder and a Runner that keep out of each other's way: one core builds, another one is measured."""

from __future__ import annotations

import os
from collections.abc import Sequence

from tuner.measure import Builder, Built, MeasureFailed, MeasureInput, MeasureResult, Runner
from tuner.task import Task


def cores_apart() -> tuple[set[int], set[int]] | None:
    """Cores to build on, and the one to measure on; None on a machine with one core."""
    usable = sorted(os.sched_getaffinity(0))
    return (set(usable[:-1]), {usable[-1]}) if len(usable) > 1 else None


class PinnedBuilder:
    """A Builder whose processes run on some cores: they are started by the thread that asks for them."""

    def __init__(self, builder: Builder, cores: set[int]) -> None:
        """Closing it closes the Builder."""
        self._builder, self._cores = builder, cores

    def build(self, inputs: Sequence[MeasureInput]) -> list[Built | MeasureFailed]:
        """Build all; one result per input."""
        os.sched_setaffinity(0, self._cores)
        return self._builder.build(inputs)

    def close(self) -> None:
        """Stop its processes."""
        self._builder.close()


class PinnedRunner:
    """A Runner whose processes run on some cores."""

    def __init__(self, runner: Runner, cores: set[int]) -> None:
        """Closing it closes the Runner."""
        self._runner, self._cores = runner, cores

    @property
    def device(self) -> str:
        """Name of the Device."""
        return self._runner.device

    def run(self, task: Task, built: Sequence[Built]) -> list[MeasureResult]:
        """Measure all; one result per input."""
        os.sched_setaffinity(0, self._cores)
        return self._runner.run(task, built)

    def compare(self, task: Task, built: Sequence[Built]) -> list[MeasureResult]:
        """Measure all in turns."""
        os.sched_setaffinity(0, self._cores)
        return self._runner.compare(task, built)

    def close(self) -> None:
        """Stop its processes."""
        self._runner.close()
