"""Candidates timed in turns, a sample of each per round, so that what slows a round slows all of it.

On a machine with neighbours a core is fast for some milliseconds and slow for the next: samples of a candidate that is
timed at a stretch are disturbed or not as one, those of different rounds are not. The rounds of a comparison are pairs
(tuner.pairs).
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing

from compiler.codegen.kernel import Kernel
from compiler.runtime.loader import LoadedKernel, evictor
from tuner.measure import Measured, MeasureFailed, MeasureOptions
from tuner.pairs import FEWEST, LOOKS, staying
from tuner.task import Task
from workers.case import Case
from workers.sampling import warm_up
from workers.verify import Arguments, Shared, check

HOPELESS = 3.0
"""A trial that is so many times slower than the best, in its warm-up and its first sample, gets no second."""
SLOW = 1.5
"""One that is so much slower in its warm-up and in SEEN samples gets no more of them."""
SEEN = 3
ENOUGH_S = 0.03
"""A trial that has run for so long gets no more than FEWEST samples: long ones average what disturbs them."""
TIMING_SHARE = 0.5
"""Of a candidate's time limit, what its samples may take."""
SAMPLE_S = 4e-4
"""In comparisons: shorter than a trial's samples, of which there are fewer."""
ROUNDS_AT_LENGTH = 64
"""Where so many rounds take longer than LONG_S, there are no more of them: they tell 5 % under load, and what is still
open then is hardly worth the time."""
LONG_S = 1.0


class WrongError(Exception):
    """A candidate does not give the reference; `failure` says how."""

    def __init__(self, failure: MeasureFailed) -> None:
        self.failure = failure


class Contender:
    """A kernel that is verified, loaded and placed until the stack is closed.

    Constants that are larger than the first cache come from memory in each run that counts: in a network all other
    layers' lie between two runs, and an algorithm that needs more of them than another pays for that (decision 0050).

    Attributes:
        samples_s: seconds per run, one figure per round.
        warm_s: seconds per run, by the last of the warm-up.
        before: runs ahead of each sample that do not count.
    """

    _far: tuple[tuple[int, int], ...] = ()
    """Addresses and bytes of the constants that are driven out of the caches."""

    def __init__(
        self,
        task: Task,
        case: Case,
        kernel: Kernel,
        shared: Shared,
        stack: ExitStack,
        *,
        verified: bool = True,
    ) -> None:
        """Raises WrongError where it is wrong, and what LoadedKernel and `Shared` raise where it cannot be called.

        shared: what it writes, as those do with which it is timed in turns.
        verified: whether its results matter.
        """
        self.samples_s: list[float] = []
        self.warm_s = math.inf
        self.before = 0
        start = time.perf_counter()
        self._task, self._case = task, case
        self._loaded = stack.enter_context(closing(LoadedKernel(kernel, task.threads)))
        self._arguments = shared.timed(kernel)
        if task.constant_bytes > task.target.l1_bytes and evictor() is not None:
            placed = zip(self._arguments.pointers, kernel.params, strict=True)
            self._far = tuple((place, p.size_bytes) for place, p in placed if p.role == "constant")
        self._error = 0.0
        if verified:
            with shared.guarded(kernel) as guarded:
                self._verify(guarded)
        self._verify_s = time.perf_counter() - start
        self._warming_s = 0.0
        self._runs = 1

    def prepare(self, sample_s: float) -> None:
        """Warm up, and find how many runs make a sample."""
        start = time.perf_counter()
        self._runs, self.warm_s = warm_up(self.time_ns, sample_s)
        if self._far:
            self.warm_s = self._apart_s()
            self._runs = max(1, round(sample_s / self.warm_s))
        self._warming_s = time.perf_counter() - start

    def take(self) -> None:
        """One sample."""
        if not self._far:
            self.samples_s.append(self.time_ns(self._runs, self.before) / self._runs / 1e9)
            return
        if self.before:
            self.time_ns(self.before)
        self.samples_s.append(sum(self._apart_s() for _ in range(self._runs)) / self._runs)

    def _apart_s(self) -> float:
        """Seconds of one run that finds its constants in memory."""
        if (evict := evictor()) is not None:
            for place, count in self._far:
                evict(place, count)
        return self.time_ns(1) / 1e9

    def time_ns(self, runs: int, before: int = 0) -> int:
        """Nanoseconds that so many runs take, after some that do not count."""
        return self._loaded.time_ns(self._arguments.pointers, runs, before=before)

    @property
    def spent_s(self) -> float:
        """What its samples have taken so far, and the runs before them."""
        return sum(self.samples_s) * (self._runs + self.before)

    @property
    def least_s(self) -> float:
        """The least of all that was seen, per run."""
        return min(self.warm_s, *self.samples_s)

    def verify(self) -> None:
        """Run once more, where it was timed; raises WrongError where it is wrong by now."""
        start = time.perf_counter()
        self._verify(self._arguments)
        self._verify_s += time.perf_counter() - start

    def _verify(self, arguments: Arguments) -> None:
        arguments.reset()
        self._loaded.run(list(arguments.pointers))
        error = check(arguments, self._case, self._task.error_budget)
        if isinstance(error, MeasureFailed):
            raise WrongError(error)
        self._error = max(self._error, error)

    def result(self, pacer: Contender | None = None) -> Measured:
        """All samples; `pacer`: who took part in each round from the first."""
        return Measured(
            tuple(self.samples_s),
            self._error,
            verify_s=self._verify_s,
            measure_s=self._warming_s + self.spent_s,
            pacer_s=() if pacer is None else tuple(pacer.samples_s[: len(self.samples_s)]),
        )


def take_trials(
    entries: Sequence[Contender], pacer: Contender | None, options: MeasureOptions, best_s: float | None
) -> None:
    """As many samples of each as the options say, in turns, fewer of what is clearly slow or runs long.

    pacer: takes part in each round.
    best_s: seconds of the best one known, None at first.
    """
    always = [] if pacer is None else [pacer]
    _prepare([*always, *entries], options.sample_ms / 1e3)
    fastest_s = math.inf if best_s is None else best_s
    left = list(entries)
    for number in range(options.samples):
        if not left:
            return
        _round([*always, *left], number)
        fastest_s = min([fastest_s, *(entry.least_s for entry in left)])
        slowest_s = (HOPELESS if number + 1 < SEEN else SLOW) * fastest_s if options.stop_early else math.inf
        longest_s = ENOUGH_S if number + 1 >= FEWEST else TIMING_SHARE * options.timeout_s
        left = [entry for entry in left if entry.least_s <= slowest_s and entry.spent_s < longest_s]


def take_turns(entries: Sequence[Contender], options: MeasureOptions) -> None:
    """Samples in turns until they decide or time is up.

    The first entry wins ties. One that cannot win any more leaves, and keeps the samples of the rounds that it was in.
    """
    _prepare(entries, SAMPLE_S)
    start = time.perf_counter()
    left = list(entries)
    for number in range(LOOKS[-1]):
        _round(left, number)
        if number + 1 in LOOKS:
            left = [left[place] for place in staying([entry.samples_s for entry in left])]
        if not left or _late(number + 1, time.perf_counter() - start, options):
            return


def _prepare(entries: Sequence[Contender], sample_s: float) -> None:
    """Warm up. Where a run is shorter than a sample, each sample follows one that brings its operands near again.

    The others have driven them out of the caches. All are treated alike: how many runs make a sample of one of them is
    what its warm-up happened to meet.
    """
    for entry in entries:
        entry.prepare(sample_s)
    before = int(min((entry.warm_s for entry in entries), default=0.0) < sample_s)
    for entry in entries:
        entry.before = before


def _round(entries: Sequence[Contender], number: int) -> None:
    """A sample of each, in another order in every round, two by turns.

    Who packs an operand as the one before it did finds it in a cache still: nobody always comes after the same.
    """
    if len(entries) > 2:
        order = random.Random(number).sample(entries, len(entries))
    else:
        order = [*entries[number % 2 :], *entries[: number % 2]]
    for entry in order:
        entry.take()


def _late(rounds: int, spent_s: float, options: MeasureOptions) -> bool:
    if spent_s > TIMING_SHARE * options.timeout_s:
        return rounds >= FEWEST
    return spent_s > LONG_S and rounds >= ROUNDS_AT_LENGTH
