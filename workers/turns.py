"""Candidates timed in turns, a sample of each per round, so that what slows a round slows all of it (tuner.pairs)."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing

from compiler.codegen.kernel import Kernel
from compiler.runtime.loader import LoadedKernel
from tuner.measure import Measured, MeasureFailed, MeasureOptions
from tuner.pairs import FEWEST, LOOKS, staying
from tuner.task import Task
from workers.case import Case
from workers.sampling import TIMING_SHARE, sample
from workers.verify import check, place

SAMPLE_S = 4e-4
"""Shorter than a trial's samples: what disturbs one of many short samples leaves the others alone."""
ROUNDS_AT_LENGTH = 64
"""Where so many rounds take longer than LONG_S, there are no more of them: they tell 5 % under load, and what is still
open then is hardly worth the time."""
LONG_S = 1.0


class WrongError(Exception):
    """A candidate does not give the reference; `failure` says how."""

    def __init__(self, failure: MeasureFailed) -> None:
        self.failure = failure


class Contender:
    """A kernel of a comparison: verified, loaded and placed until the stack is closed.

    Attributes:
        samples_s: seconds per run, one figure per round.
        arguments: what its runs read and write.
    """

    def __init__(self, task: Task, case: Case, kernel: Kernel, stack: ExitStack) -> None:
        """Raises WrongError where it is wrong, and what LoadedKernel and `place` raise where it cannot be called."""
        self.samples_s: list[float] = []
        start = time.perf_counter()
        self._loaded = stack.enter_context(closing(LoadedKernel(kernel, task.threads)))
        self.arguments = stack.enter_context(place(kernel, case))
        self._loaded.run(self.arguments.pointers)
        error = check(self.arguments, case, task.error_budget)
        if isinstance(error, MeasureFailed):
            raise WrongError(error)
        self._error, self._pointers = error, self.arguments.align()
        self._verify_s = time.perf_counter() - start
        self._runs = 1

    def prepare(self, options: MeasureOptions) -> None:
        """Warm up, and find how many runs make a sample."""
        single_s = min(sample(self.time_ns, options, None))
        self._runs = max(1, math.ceil(SAMPLE_S / single_s))

    def take(self) -> None:
        """One sample; where it is of many short runs, after one that brings the operands near again."""
        if self._runs > 1:
            self.time_ns(1)
        self.samples_s.append(self.time_ns(self._runs) / self._runs / 1e9)

    def time_ns(self, runs: int) -> int:
        """Nanoseconds that so many runs take."""
        return self._loaded.time_ns(self._pointers, runs)

    def result(self, error: float) -> Measured:
        """All samples; `error`: what the last run left."""
        spent_s = sum(self.samples_s) * self._runs
        return Measured(
            tuple(self.samples_s), max(self._error, error), verify_s=self._verify_s, measure_s=spent_s
        )


def take_turns(entries: Sequence[Contender], options: MeasureOptions) -> None:
    """Samples in turns until they decide or time is up; who begins changes with every round.

    The first entry wins ties. One that cannot win any more leaves, and keeps the samples of the rounds that it was in.
    """
    for entry in entries:
        entry.prepare(options)
    start = time.perf_counter()
    left = list(entries)
    for number in range(LOOKS[-1]):
        first = number % len(left)
        for entry in (*left[first:], *left[:first]):
            entry.take()
        if number + 1 in LOOKS:
            left = [left[place] for place in staying([entry.samples_s for entry in left])]
        if not left or _late(number + 1, time.perf_counter() - start, options):
            return


def _late(rounds: int, spent_s: float, options: MeasureOptions) -> bool:
    if spent_s > TIMING_SHARE * options.timeout_s:
        return rounds >= FEWEST
    return spent_s > LONG_S and rounds >= ROUNDS_AT_LENGTH
