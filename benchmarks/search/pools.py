"""Pools: candidates of one Task with their times. JSON lines, so that a pool can grow and a run can stop at any moment.

line 1   {"network", "rules", "epoch", "size", "beside", "task"}: the size of the space whose places the others name,
         and the place of the default of then
others   [place, least_s, error] of a sample of the uniform sampler, [place, kind of failure] of one that failed;
         one more element, 1, where a search among the best had asked for it; a place that comes again was timed again
         {"ratios": [[place, ratio], ...]} of candidates timed in turns with that default: times over its own

A place is the assignment as a number: its choices are the digits, the last knob's the lowest.
"""

from __future__ import annotations

import itertools
import json
import math
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np

from compiler.errors import InputError
from compiler.space.rules import VERSION, build_space
from compiler.space.space import Assignment, SearchSpace
from tuner.measure import Measured, MeasureFailed, MeasureResult
from tuner.pairs import ratio_interval
from tuner.record import CODEGEN_EPOCH
from tuner.task import PROTOCOL, Task
from workers.wire import task_from_json, task_json

SHAPES = "shapes"
"""The network of the layers of `benchmarks.search.shapes`: its pools teach, and are never judged."""
RATIO_SHARE, SHARE_DEVIATION = 0.25, 0.25
"""Share, of logarithms, of a single ratio beside the least of a candidate's own samples, and how far from it what a
pool itself says may be: see `_ratio_share`."""
OFTEN = 8
"""Comparisons whose halves are told apart."""


@dataclass(frozen=True)
class Row:
    """A candidate.

    Attributes:
        seconds: the median of its ratios to the default, times what that takes, where it has been compared with that
            beside its visits; else of each visit some of its ratio (`_ratio_share`) and some of what it took, all
            visits alike; None where it failed.
        failure: how it failed.
        error: of the output, relative to the largest.
        searched: whether it was found by a search among the best, and not sampled uniformly.
        visits: the least of each visit's samples (what disturbs the others is not the candidate's), where there was
            more than one visit.
        ratios: its time over the default's, one per visit and comparison.
        said: seconds by each visit and its ratio together, where it has ratios.
    """

    assignment: Assignment
    seconds: float | None
    failure: str = ""
    error: float = 0.0
    searched: bool = False
    visits: tuple[float, ...] = ()
    ratios: tuple[float, ...] = ()
    said: tuple[float, ...] = ()

    @property
    def times(self) -> tuple[float, ...]:
        """In seconds, one per visit; none where it failed."""
        return self.visits or (() if self.seconds is None else (self.seconds,))

    def again(self, other: Row) -> Row:
        """The row with another visit to its candidate; who fails in one has failed."""
        if self.seconds is None:
            return self
        if other.seconds is None:
            return replace(other, searched=self.searched)
        times = (*self.times, *other.times)
        return replace(self, seconds=settled(times), error=max(self.error, other.error), visits=times)


def settled(times: Sequence[float]) -> float:
    """A candidate's time from those of its visits: the median, and the least of one or two."""
    return median(times) if len(times) > 2 else min(times)


@dataclass(frozen=True)
class Pool:
    """All that is known of one Task; rows in the order in which they were measured, from so many lines of its file.

    `beside`: see PoolFile.
    """

    network: str
    task: Task
    rows: tuple[Row, ...]
    epoch: int = CODEGEN_EPOCH
    lines: int = 0
    beside: Assignment | None = None

    @property
    def key(self) -> str:
        """Tells the Task from others, in any training run."""
        return key_of(self.task)

    @cached_property
    def best_s(self) -> float:
        """What the fastest takes.

        Of many that are alike the one that seems the fastest was lucky. Where it has been compared often enough, half
        of the comparisons say who is the fastest, and the others what that one takes.
        """
        timed = [row for row in self.rows if row.seconds is not None]
        first = min(timed, key=lambda row: row.seconds or 0.0)
        compared = [row for row in timed if len(row.ratios) >= OFTEN]
        if first not in compared or first.seconds is None:
            return min(row.seconds for row in timed if row.seconds is not None)
        honest = [
            median(min(compared, key=lambda row: median(row.ratios[half::2])).ratios[1 - half :: 2])
            for half in (0, 1)
        ]
        return first.seconds * sum(honest) / 2 / median(first.ratios)

    @property
    def uniform(self) -> tuple[Row, ...]:
        """What the uniform sampler gave."""
        return tuple(row for row in self.rows if not row.searched)


def key_of(task: Task) -> str:
    """Tells a Task from others, in any training run."""
    return f"{task.workload.digest[:16]}/{task.target.digest[:8]}/{task.threads}"


def samples(space: SearchSpace, seed: int = 0) -> Iterator[Assignment]:
    """Uniform legal assignments of distinct Schedules, the default first; ends when new ones have become rare.

    Two assignments have one Schedule where a knob belongs to another algorithm than theirs.
    """
    rng, seen, repeats = random.Random(seed), {space.schedule(space.default)}, 0
    yield space.default
    while repeats < 200:
        assignment = space.sample(rng)
        schedule = space.schedule(assignment)
        repeats = repeats + 1 if schedule in seen else 0
        if schedule not in seen:
            seen.add(schedule)
            yield assignment


def has_samples(space: SearchSpace, count: int) -> bool:
    """Whether the uniform sampler finds so many."""
    return space.size >= count and sum(1 for _ in itertools.islice(samples(space), count)) == count


def slower(other: Measured, default: Measured) -> float:
    """How many times as long as the default another one took, in the rounds that both were timed in."""
    # The median of default over other: its inverse is what the other takes.
    return 1 / ratio_interval(other.samples_s, default.samples_s)[1]


def place_of(space: SearchSpace, assignment: Assignment) -> int:
    """The assignment as a number."""
    place = 0
    for knob, choice in zip(space.knobs, assignment, strict=True):
        place = place * len(knob.choices) + choice
    return place


def assignment_at(space: SearchSpace, place: int) -> Assignment:
    """Inverse of `place_of`."""
    choices = []
    for knob in reversed(space.knobs):
        place, choice = divmod(place, len(knob.choices))
        choices.append(choice)
    return tuple(reversed(choices))


class PoolFile:
    """A pool on disk that can grow. What was measured with another code generator is refused, never mixed.

    Attributes:
        beside: with which its candidates are timed: the default of when it began, which the rules may have changed.
    """

    def __init__(self, path: Path) -> None:
        """Read what was recorded."""
        header, rows = _read(path)
        if header["epoch"] != CODEGEN_EPOCH:
            msg = (
                f"{path.name} was recorded with code generator {header['epoch']}, this is {CODEGEN_EPOCH}; begin it "
                "again in another folder"
            )
            raise InputError(msg)
        if header.get("protocol") != PROTOCOL:
            msg = (
                f"{path.name} was recorded by another measurement protocol; begin it again in another folder"
            )
            raise InputError(msg)
        self.path, self.task = path, task_from_json(header["task"])
        self.space = _space(path, header, self.task)
        self.beside = assignment_at(self.space, header["beside"])
        self._lines = rows
        self.rows = _merged(self.space, rows, self.beside)

    @staticmethod
    def create(folder: Path, network: str, task: Task) -> None:
        """An empty pool, unless there is one."""
        path = folder / f"{network}-{task.workload.digest[:8]}-{task.target.digest[:4]}-{task.threads}.jsonl"
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            space = build_space(task.workload, task.target, task.threads)
            versions = {"rules": VERSION, "epoch": CODEGEN_EPOCH, "protocol": PROTOCOL, "size": space.size}
            beside = place_of(space, space.default)
            header = {"network": network, **versions, "beside": beside, "task": task_json(task)}
            path.write_text(json.dumps(header, separators=(",", ":")) + "\n")

    def append(self, measured: Sequence[tuple[Assignment, MeasureResult]], *, searched: bool) -> None:
        """Add results at the end."""
        self._append([_row_json(place_of(self.space, a), r, searched=searched) for a, r in measured])

    def append_ratios(self, ratios: Sequence[tuple[Assignment, float]]) -> None:
        """Add what a comparison said at the end."""
        self._append([{"ratios": [[place_of(self.space, a), float(f"{r:.4g}")] for a, r in ratios]}])

    def _append(self, lines: Sequence[Any]) -> None:
        with self.path.open("a") as file:
            file.write("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
        self._lines.extend(lines)
        self.rows = _merged(self.space, self._lines, self.beside)


def load_pools(folder: Path, lines: Mapping[str, int] | None = None) -> list[Pool]:
    """Every pool of a folder, by name; raises InputError on one that does not fit this code.

    lines: by the Task's key, pools as they were when they were so long, and no others.
    """
    pools = []
    for path in sorted(folder.glob("*.jsonl")):
        header, rows = _read(path)
        task = task_from_json(header["task"])
        space = _space(path, header, task)
        beside = assignment_at(space, header["beside"])
        pool = Pool(str(header["network"]), task, (), int(header["epoch"]), beside=beside)
        if lines is None or pool.key in lines:
            rows = rows if lines is None else rows[: lines[pool.key]]
            pools.append(replace(pool, rows=tuple(_merged(space, rows, beside)), lines=len(rows)))
    return pools


def pool_space(pool: Pool) -> SearchSpace:
    """The space that the pool was sampled from."""
    return build_space(pool.task.workload, pool.task.target, pool.task.threads)


def _space(path: Path, header: Mapping[str, Any], task: Task) -> SearchSpace:
    """The Task's space; raises InputError where a place would name something else than it did."""
    space = build_space(task.workload, task.target, task.threads)
    if header.get("size") != space.size:
        then = header.get("size")
        msg = f"{path.name} was recorded from {then} assignments, the Task has {space.size}; record it again"
        raise InputError(msg)
    return space


def _row_json(place: int, result: MeasureResult, *, searched: bool) -> list[Any]:
    end = [1] if searched else []
    if isinstance(result, MeasureFailed):
        return [place, result.kind.value, *end]
    return [place, float(f"{min(result.samples_s):.4g}"), float(f"{result.error:.2g}"), *end]


def _row(space: SearchSpace, row: list[Any]) -> Row:
    assignment = assignment_at(space, int(row[0]))
    if isinstance(row[1], str):
        return Row(assignment, None, row[1], searched=len(row) > 2)
    return Row(assignment, float(row[1]), error=float(row[2]), searched=len(row) > 3)


def _merged(space: SearchSpace, lines: Iterable[Any], beside: Assignment) -> list[Row]:
    """One row per candidate, in the order of their first visits."""
    found: dict[Assignment, Row] = {}
    ratios: dict[Assignment, list[float]] = defaultdict(list)
    batches: list[tuple[float, float]] = []
    batch: dict[Assignment, float] = {}
    for line in lines:
        if isinstance(line, dict):
            said = [(assignment_at(space, int(place)), float(ratio)) for place, ratio in line["ratios"]]
            for assignment, ratio in said:
                ratios[assignment].append(ratio)
            if batch and (logs := [(math.log(batch[a]), math.log(r)) for a, r in said if a in batch]):
                batches.append((median(own - r for own, r in logs), mean(own for own, _ in logs)))
            batch = {}
            continue
        row = _row(space, line)
        known = found.get(row.assignment)
        found[row.assignment] = row if known is None else known.again(row)
        if row.seconds is not None and not row.searched:
            batch[row.assignment] = row.seconds
    beside_s, share = _beside_s(found, ratios), _ratio_share(batches)
    if beside_s is not None and beside in found and found[beside].seconds is not None:
        found[beside] = replace(found[beside], seconds=beside_s)
    paces = _paces(list(found.values()))
    return [_compared(row, ratios.get(row.assignment, ()), beside_s, share, paces) for row in found.values()]


def _paces(rows: Sequence[Row]) -> list[float]:
    """How long what was timed took in each visit, over the first: days differ, and some were visited on one alone."""
    paces = [1.0]
    while again := [row.times for row in rows if len(row.times) > len(paces)]:
        paces.append(median(times[len(paces)] / times[0] for times in again))
    return paces


def _ratio_share(batches: Sequence[tuple[float, float]]) -> float:
    """How much of what the default took in a batch all of the batch took, 0 to 1.

    What slows a batch slows both alike; the default has noise of its own besides, which says nothing of the others. The
    slope of one on the other tells them apart, with the doubt that its error leaves, around RATIO_SHARE.

    batches: logarithms of what the default took, and the mean of all, of uniform samples.
    """
    known = 1 / SHARE_DEVIATION**2
    if len(batches) < 3:
        return RATIO_SHARE
    default, others = np.array(batches).T
    default, others = default - default.mean(), others - others.mean()
    squares = float(default @ default)
    if not squares:
        return RATIO_SHARE
    slope = float(default @ others) / squares
    left = float(((others - slope * default) ** 2).sum()) / (len(batches) - 2)
    sure = squares / left if left else math.inf
    share = slope if math.isinf(sure) else (slope * sure + RATIO_SHARE * known) / (sure + known)
    return min(1.0, max(0.0, share))


def _beside_s(rows: Mapping[Assignment, Row], ratios: Mapping[Assignment, Sequence[float]]) -> float | None:
    """What the default took while the others did: the median of what their times and ratios say; None without any."""
    said = [
        row.seconds / median(ratios[assignment])
        for assignment, row in rows.items()
        if row.seconds is not None and assignment in ratios
    ]
    return median(said) if said else None


def _compared(
    row: Row, ratios: Sequence[float], beside_s: float | None, share: float, paces: Sequence[float]
) -> Row:
    if not ratios or row.seconds is None or beside_s is None:
        return row
    visits = zip(row.times, paces, ratios, strict=False)
    said = tuple((own / pace) ** (1 - share) * (beside_s * ratio) ** share for own, pace, ratio in visits)
    compared = len(ratios) > max(1, len(row.times))
    seconds = beside_s * median(ratios) if compared else median(said)
    return replace(row, seconds=seconds, ratios=tuple(ratios), said=said)


def _read(path: Path) -> tuple[dict[str, Any], list[Any]]:
    with path.open() as file:
        header = json.loads(file.readline())
        rows = [json.loads(line) for line in file if line.endswith("\n")]
    if header["rules"] != VERSION:
        msg = f"{path.name} was recorded under rules {header['rules']}, these are {VERSION}; record it again"
        raise InputError(msg)
    return header, rows
