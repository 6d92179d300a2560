"""Settling pools: who is the best of a thousand by one or two visits was lucky more than it is good.

The front of a pool is timed in turns with the default, in one process within the same seconds, so that what slows one
slows all; only the ratios to the default count (tuner.pairs). Whoever was lucky falls back and the next comes forward,
until all of the front have been compared often enough: what a comparison says depends on what else the machine does in
that second. It depends on its process too: some unrolled kernels that read constants from memory take one of two times,
mostly the same one for as long as a process lives. So each comparison has processes of its own. What a search would try
first is compared as well, since its share of the best is what the report says.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import AbstractContextManager

from benchmarks.search.pools import PoolFile, Row, key_of, slower
from compiler.errors import InputError
from compiler.space.space import Assignment
from tuner.candidate import Candidate
from tuner.measure import Measured, MeasureResult
from tuner.workbench import Workbench

FRONTS = {16: 8, 6: 12}
"""So many of the best are compared so often: of many that are alike, who seems the best is still the luckiest."""
PROPOSED = 8
"""What a search tries first is compared so often."""


def settle(
    files: Sequence[PoolFile],
    seconds: float,
    open_bench: Callable[[], AbstractContextManager[Workbench]],
    proposed: Mapping[str, Set[Assignment]] | None = None,
) -> Counter[str]:
    """Compare the fronts of pools for so many seconds; how many rows of each have been compared then.

    A pool of which the default has no time is left alone. Raises InputError where a default fails in a comparison.

    open_bench: gives each comparison processes that have timed nothing before.
    proposed: others that are compared PROPOSED times, by the key of the Task.
    """
    end = time.monotonic() + seconds
    for file in files:
        others = (proposed or {}).get(key_of(file.task), frozenset())
        while time.monotonic() < end and (open_ones := unsettled(file.rows, file.beside, others)):
            with open_bench() as bench:
                _compare(file, open_ones, bench)
    return Counter({file.path.name: sum(len(row.ratios) > 1 for row in file.rows) for file in files})


def unsettled(
    rows: Sequence[Row], default: Assignment | None, proposed: Set[Assignment] = frozenset()
) -> list[Row]:
    """Those of a pool's front, and of what is proposed, that have not been compared often enough."""
    timed = [row for row in rows if row.seconds is not None]
    if all(row.assignment != default for row in timed):
        return []
    rivals = sorted((row for row in timed if row.assignment != default), key=lambda row: row.seconds or 0.0)
    for front, often in FRONTS.items():
        if left := [row for row in rivals[:front] if len(row.ratios) < often]:
            return left
    wanted = [row for row in rivals if row.assignment in proposed and len(row.ratios) < PROPOSED]
    return wanted[: max(FRONTS)]


def _compare(file: PoolFile, rows: Sequence[Row], bench: Workbench) -> None:
    """Append the ratios of one comparison, and who failed in it."""
    chosen = [file.beside, *(row.assignment for row in rows)]
    candidates = [Candidate(file.space.schedule(a), a) for a in chosen]
    default, *others = bench.compare(file.task, candidates).results()
    if not isinstance(default, Measured):
        msg = f"the default of {file.path.name} fails in a comparison ({default.message}); record that pool again"
        raise InputError(msg)
    ratios, failed = list[tuple[Assignment, float]](), list[tuple[Assignment, MeasureResult]]()
    for assignment, other in zip(chosen[1:], others, strict=True):
        if isinstance(other, Measured):
            ratios.append((assignment, slower(other, default)))
        else:
            failed.append((assignment, other))
    file.append_ratios(ratios)
    file.append(failed, searched=False)
