"""Recording pools: a few candidates of each Task in turn, until the time is up; the next run goes on from there.

Candidates are built while others are measured. Of five candidates four are uniform samples, and one is a mutant of the
best that are known, so that a pool has what a search would find. A batch is timed in turns, and the default with it:
what counts is how much longer than that a candidate took in the same rounds, since what disturbs one batch leaves
another alone. The last rows of a pool are what the tuner's own search would try next (`live`). The uniform samples of
a pool that is full are visited again; which of the others is the best is for `settle` to say.
"""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.search.live import LiveSearch
from benchmarks.search.pools import PoolFile, has_samples, samples, slower
from compiler.errors import InputError
from compiler.pipeline import load_graph, lower
from compiler.space.rules import build_space
from compiler.space.space import Assignment
from compiler.target import Target
from tuner.candidate import Candidate
from tuner.loading import task_share
from tuner.measure import Measured, MeasureOptions
from tuner.search.variation import Variation
from tuner.task import Task
from tuner.workbench import Batch, Workbench

BATCH = 20
VISIT = 10
"""Batches of a Task in a row: its operands and reference take longer to make than a batch."""
SEARCHED = 5
"""Of so many candidates one is a mutant."""
PARENTS = 8
"""So many of the best have mutants."""
MOST_OPERATIONS = 500_000_000
"""Larger Tasks take so long that hardly a run is left alone on a machine with neighbours."""
OPTIONS = MeasureOptions(samples=16, sample_ms=0.4, stop_early=False)
"""Many short samples: what disturbs a core lasts for milliseconds, and longer than a round of short ones."""
FAILURES = 5
"""Batches in a row whose default fails: no mere disturbance."""
LEAST_SPACE = 16
"""Smaller spaces leave nothing to choose."""


def network_tasks(
    path: Path, count: int, threads: int, target: Target, taken: set[str], least: int = LEAST_SPACE
) -> list[Task]:
    """Some of a network's Tasks, without those in `taken`, which grows, or with fewer samples than `least`.

    The heaviest of each kind of space come first, then the second heaviest of each.
    """
    program = lower(load_graph(path))
    weights = Counter(s.workload.digest for s in program.subgraphs)
    first = {s.workload.digest: s for s in reversed(program.subgraphs)}
    kinds: dict[tuple[str, ...], list[tuple[int, Task]]] = {}
    for digest, subgraph in first.items():
        task = Task(subgraph.workload, target, threads, weights[digest], subgraph.name)
        space = build_space(task.workload, target, threads)
        if digest in taken or task.workload.operations > MOST_OPERATIONS or not has_samples(space, least):
            continue
        work = task.weight * task_share(task, space).operations
        kinds.setdefault(tuple(knob.name for knob in space.knobs), []).append((work, task))
    ranked = [sorted(tasks, key=lambda entry: -entry[0]) for tasks in kinds.values()]
    rounds = itertools.zip_longest(*sorted(ranked, key=lambda tasks: -tasks[0][0]))
    found = [entry[1] for entry in itertools.chain(*rounds) if entry is not None][:count]
    taken.update(task.workload.digest for task in found)
    return found


def prepare(
    models: Sequence[Path],
    folder: Path,
    tasks: int,
    threads: int,
    target: Target,
    least: int = LEAST_SPACE,
    network: str | None = None,
) -> None:
    """An empty pool for some Tasks of each network; a Task of several networks belongs to the first.

    network: to which all of them belong; None: each model is one.
    """
    taken: set[str] = set()
    for path in models:
        for task in network_tasks(path, tasks, threads, target, taken, least):
            PoolFile.create(folder, network or path.stem, task)


@dataclass(frozen=True)
class _Flight:
    """A batch on its way."""

    pool: _Recording
    batch: Batch
    searched: bool


def record(
    files: Sequence[PoolFile],
    count: int,
    seconds: float,
    bench: Workbench,
    *,
    ahead: int = 1,
    visits: int = 1,
    live: int = 0,
) -> Counter[str]:
    """Fill pools evenly for so many seconds; how many rows each has then.

    ahead: batches on their way.
    visits: how often each uniform sample is timed, again only when its pool is full.
    live: rows that a pool gets from the tuner's own search when it has `count` others.
    """
    end = time.monotonic() + seconds
    pools = [_Recording(file, visits, live) for file in files]
    flights: deque[_Flight] = deque()
    turns = _turns(pools, count)
    while True:
        while len(flights) < ahead and time.monotonic() < end and (pool := next(turns, None)) is not None:
            flights.append(pool.launch(count, bench))
        if not flights:
            if time.monotonic() >= end or all(pool.done(count) for pool in pools):
                return Counter({pool.file.path.name: len(pool.file.rows) for pool in pools})
            turns = _turns(pools, count)  # Visits are due once all of a pool has a time.
            continue
        flight = flights.popleft()
        flight.pool.land(flight)


def _turns(pools: Sequence[_Recording], count: int) -> Iterator[_Recording]:
    """Whose batch is next: VISIT of the pool that has asked for the least, until all are done."""
    while left := [pool for pool in pools if not pool.done(count)]:
        pool = min(left, key=lambda p: p.asked)
        for _ in range(VISIT):
            if not pool.done(count):
                yield pool


class _Recording:
    """A pool that grows. `asked`: how many visits to candidates have been asked for."""

    def __init__(self, file: PoolFile, visits: int, live: int) -> None:
        self.file, self._visits, self._live = file, visits, live
        self._default = file.beside
        self._known = {row.assignment for row in file.rows} | {self._default}
        self._starts = [a for a in (file.space.default, *file.space.starts) if a not in self._known]
        self._samples = samples(file.space)
        self._rng = random.Random(len(file.rows))
        self._variation = Variation(file.space)
        self._searched = sum(row.searched for row in file.rows)
        self._sampled = self._ended = False
        self._search: LiveSearch | None = None
        self._again: deque[Assignment] = deque()
        self._round, self._failures = 1, 0
        self._new = len(file.rows)
        self.asked = sum(max(1, len(row.times)) for row in file.rows)

    def done(self, count: int) -> bool:
        """Whether the pool has so many rows or is about to, or nothing new is found; and each has its visits."""
        if not self._is_full(count):
            return False
        while not self._again and self._round < self._visits:
            self._round += 1
            sampled = (row for row in self.file.rows if not row.searched and row.assignment != self._default)
            self._again.extend(row.assignment for row in sampled if 0 < len(row.times) < self._round)
        return not self._again

    def _is_full(self, count: int) -> bool:
        return not self._starts and (self._ended or self._new >= count + self._live)

    def launch(self, count: int, bench: Workbench) -> _Flight:
        """Send candidates on their way, the default first: new ones, or those of a round of visits."""
        if self._is_full(count):
            again = [self._again.popleft() for _ in range(min(BATCH, len(self._again)))]
            self._rng.shuffle(again)
            return self._sent(again, bench, searched=False)
        chosen, searched = self._chosen(count)
        self._known.update(chosen)
        self._new += len(chosen)
        self._searched += len(chosen) if searched else 0
        return self._sent(chosen, bench, searched=searched)

    def _chosen(self, count: int) -> tuple[list[Assignment], bool]:
        """New assignments, and whether a search has asked for them; the pool has ended where there are none."""
        if self._starts:
            chosen, self._starts = self._starts[:BATCH], self._starts[BATCH:]
            return chosen, True
        if not self._sampled and self._new < count:
            left = min(BATCH, count - self._new)
            due = self._searched * SEARCHED < self._new
            mutants = list(itertools.islice(self._mutants(), left)) if due else []
            if chosen := mutants or list(itertools.islice(self._new_samples(), left)):
                return chosen, bool(mutants)
            self._sampled = True
        left = min(BATCH, count + self._live - self._new) if self._live else 0
        chosen = self._searched_on(left) if left > 0 else []
        self._ended = not chosen
        return chosen, True

    def _searched_on(self, wanted: int) -> list[Assignment]:
        """What the tuner's search tries next; the pool's rows are known to it only when they are in the file."""
        self._search = self._search or LiveSearch(self.file)
        while proposed := self._search.propose(wanted):
            # What was thrown away is not in the file: the search does not know it.
            if new := [assignment for assignment in proposed if assignment not in self._known]:
                return new
        return []

    def _sent(self, chosen: Sequence[Assignment], bench: Workbench, *, searched: bool) -> _Flight:
        self.asked += len(chosen)
        candidates = [Candidate(self.file.space.schedule(a), a) for a in (self._default, *chosen)]
        return _Flight(self, bench.submit(self.file.task, candidates), searched)

    def land(self, flight: _Flight) -> None:
        """Append a batch's results; nothing where the default, beside which they were timed, has none.

        Raises InputError where that happens again and again: the pool would never be full.
        """
        found = zip(flight.batch.candidates, flight.batch.results(), strict=True)
        timed = [(candidate.assignment or (), result) for candidate, result in found]
        default = timed[0][1]
        if not isinstance(default, Measured):
            self._failures += 1
            if self._failures == FAILURES:
                msg = f"the default of {self.file.path.name} failed {FAILURES} times in a row ({default.message})"
                raise InputError(msg)
            return
        self._failures = 0
        known = next((len(row.times) for row in self.file.rows if row.assignment == self._default), 0)
        # As often as any other candidate.
        seldom = known < min(self._round, self._visits)
        self.file.append(timed if seldom else timed[1:], searched=flight.searched)
        self.file.append_ratios([(a, slower(r, default)) for a, r in timed[1:] if isinstance(r, Measured)])

    def _new_samples(self) -> Iterator[Assignment]:
        return (a for a in self._samples if a not in self._known)

    def _mutants(self) -> Iterator[Assignment]:
        """New mutants of the best; ends when they have become rare."""
        timed = [row for row in self.file.rows if row.seconds is not None]
        best = [row.assignment for row in sorted(timed, key=lambda row: row.seconds or 0.0)[:PARENTS]]
        tried: set[Assignment] = set()
        for _ in range(20 * BATCH if best else 0):
            mutant = self._variation.mutate(self._rng.choice(best), self._rng)
            if mutant not in self._known and mutant not in tried:
                tried.add(mutant)
                yield mutant
