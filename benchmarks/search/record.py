"""Recording pools: a few candidates of each Task in turn, until the time is up; the next run goes on from there.

Each batch begins and ends with the default. Where it is slower than it has been, something else had the machine, and
the batch is thrown away.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter, deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.search.pools import PoolFile, samples
from compiler.pipeline import load_graph, lower
from compiler.space.rules import build_space
from compiler.target import native_target
from tuner.candidate import Candidate
from tuner.measure import Measured, MeasureFailed, MeasureOptions, MeasureResult
from tuner.task import Task
from tuner.workbench import Batch, Workbench

BATCH = 12
DRIFT = 1.12
"""A batch whose default takes this many times its best is thrown away."""
MOST_OPERATIONS = 120_000_000
"""Larger Tasks take so long that hardly a run is left alone on a machine with neighbours."""
OPTIONS = MeasureOptions(samples=9, min_sample_ms=0.5, stop_early=False)
"""Many short samples, of which the least counts: what disturbs some leaves others alone."""
LEAST_SPACE = 200
"""Smaller spaces are searched whole, and tell nothing of a search."""


def network_tasks(path: Path, count: int, taken: set[str]) -> list[Task]:
    """The Tasks of a network with the most operations per run of it, without those in `taken`, which grows."""
    program, target = lower(load_graph(path)), native_target()
    weights = Counter(s.workload.digest for s in program.subgraphs)
    first = {s.workload.digest: s for s in reversed(program.subgraphs)}
    found: list[Task] = []
    for digest in sorted(first, key=lambda d: -weights[d] * first[d].workload.operations):
        workload = first[digest].workload
        if len(found) == count or digest in taken or workload.operations > MOST_OPERATIONS:
            continue
        if build_space(workload, target, 1).size >= LEAST_SPACE:
            taken.add(digest)
            found.append(Task(workload, target, 1, weights[digest], first[digest].name))
    return found


def prepare(models: Sequence[Path], folder: Path, tasks: int) -> None:
    """An empty pool for some Tasks of each network; a Task of several networks belongs to the first."""
    taken: set[str] = set()
    for path in models:
        for task in network_tasks(path, tasks, taken):
            PoolFile.create(folder, path.stem, task)


def record(folder: Path, count: int, seconds: float, bench: Workbench) -> Counter[str]:
    """Fill the pools of a folder evenly for so many seconds; how many rows each has then."""
    end = time.monotonic() + seconds
    pools = [_Recording(PoolFile(path)) for path in sorted(folder.glob("*.jsonl"))]
    flights: deque[tuple[_Recording, Batch]] = deque()
    while True:
        left = [pool for pool in pools if not pool.done(count)]
        while left and len(flights) < 2 and time.monotonic() < end:
            pool = min(left, key=lambda p: p.asked)
            flights.append((pool, bench.submit(pool.file.task, pool.next_batch(count))))
            left = [pool for pool in pools if not pool.done(count)]
        if not flights:
            return Counter({pool.file.path.name: len(pool.file.rows) for pool in pools})
        pool, batch = flights.popleft()
        pool.keep(batch.candidates, batch.results())


class _Recording:
    """A pool that grows. `asked`: how many of the sampler's candidates have been asked for."""

    def __init__(self, file: PoolFile) -> None:
        self.file = file
        task = file.task
        self._space = build_space(task.workload, task.target, task.threads)
        known = {tuple(row[0]) for row in file.rows} | {self._space.default}
        self._samples = (a for a in samples(self._space) if a not in known)
        self._ended = False
        self.asked = len(file.rows)

    def done(self, count: int) -> bool:
        """Whether the pool has so many rows or is about to, or the sampler finds no more."""
        return self._ended or self.asked >= count

    def next_batch(self, count: int) -> list[Candidate]:
        """The default, new candidates, and the default again."""
        chosen = list(itertools.islice(self._samples, min(BATCH, count - self.asked)))
        self._ended = not chosen
        self.asked += len(chosen)
        both = [self._space.default, *chosen, self._space.default]
        return [Candidate(self._space.schedule(a), a) for a in both]

    def keep(self, candidates: Sequence[Candidate], results: Sequence[MeasureResult]) -> None:
        """Append the batch, unless something else had the machine."""
        defaults = [min(r.samples_s) for r in (results[0], results[-1]) if isinstance(r, Measured)]
        known = [row[2] for row in self.file.rows if tuple(row[0]) == self._space.default and len(row) > 2]
        if defaults and max(defaults) <= DRIFT * min([*defaults, *known]):
            first = 1 if known else 0
            inner = zip(candidates[first:-1], results[first:-1], strict=True)
            self.file.append([_row(c.assignment or (), r) for c, r in inner])


def _row(assignment: Sequence[int], result: MeasureResult) -> list[Any]:
    if isinstance(result, MeasureFailed):
        return [list(assignment), result.kind.value]
    return [list(assignment), float(f"{result.median_s:.4g}"), float(f"{min(result.samples_s):.4g}")]
