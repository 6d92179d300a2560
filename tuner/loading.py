"""What a Task starts from: its SearchSpace, and what the tuning log knows."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.schedule.legal import is_legal
from compiler.space.rules import build_space
from compiler.space.space import SearchSpace
from tuner.candidate import Candidate
from tuner.measure import Measured
from tuner.near import Relatives
from tuner.options import SessionOptions
from tuner.record import CODEGEN_EPOCH, Trial, TuningRecord
from tuner.search.protocol import Scorer
from tuner.search.recover import recover_assignment
from tuner.search.strategies import make_strategy
from tuner.task import Task
from tuner.task_run import TaskRun
from tuner.task_scheduler.gradient import TaskShare

KNOWN_LIMIT = 4000
"""Newest trials of a Task that are read from the log."""
_RECOVERED = 6
"""Best logged trials that become parents again."""
_STALE = 3
"""Best trials of older code generation that are measured again first."""
_OPERATIONS_PER_BYTE = 8
"""About what a core computes while it moves a byte."""


def default_space(task: Task) -> SearchSpace:
    """The space that the compiler's rules give."""
    return build_space(task.workload, task.target, task.threads, task.error_budget)


def task_share(task: Task, space: SearchSpace) -> TaskShare:
    """The scheduler's first guess of a Task's time, from operations and bytes, and where its search starts."""
    workload = task.workload
    moved = sum(o.size_bytes for o in (*workload.operands, *workload.outputs))
    return TaskShare(
        task.weight, max(workload.operations, moved * _OPERATIONS_PER_BYTE), 1 + len(space.starts)
    )


def load_run(
    task: Task,
    space: SearchSpace,
    record: TuningRecord | None,
    trials: Sequence[Trial],
    options: SessionOptions,
    scorer: Scorer,
    relatives: Relatives,
) -> TaskRun:
    """A TaskRun that knows the log's trials.

    Right after the default it proposes the record; without one, what is the best of near Tasks; then where the rules
    would begin, and the best trials of older code generation. A record whose Steps do not apply is none.
    """
    default = Candidate(space.schedule(space.default), space.default)
    current = _that_apply(task, [trial for trial in trials if trial.codegen_epoch == CODEGEN_EPOCH])
    stale = [trial for trial in trials if trial.codegen_epoch != CODEGEN_EPOCH]
    best = {t.schedule.digest for t in _fastest(current, _RECOVERED)}
    first = [default]
    outlived = None
    if record is not None and not is_legal(task.workload, record.schedule):
        outlived, record = record.schedule.digest, None
    if record is not None:
        first.append(Candidate(record.schedule, recover_assignment(space, record.schedule)))
    else:
        first += [Candidate(space.schedule(seed), seed) for seed in relatives.seeds(task, space)]
    first += [Candidate(t.schedule, recover_assignment(space, t.schedule)) for t in _fastest(stale, _STALE)]
    seed = options.seed + int(task.workload.digest[:8], 16)
    known = [
        (
            Candidate(
                t.schedule, recover_assignment(space, t.schedule) if t.schedule.digest in best else None
            ),
            t.result,
        )
        for t in current
    ]
    strategy = make_strategy(options.strategy, space, scorer, seed, first)
    return TaskRun(task, default, record, strategy, known, outlived)


def _that_apply(task: Task, trials: Sequence[Trial]) -> list[Trial]:
    """The trials but for the fastest whose Steps do not apply: they would keep what can be built out of the finals."""
    outlived, found = set[str](), 0
    for trial in _fastest(trials, len(trials)):
        if is_legal(task.workload, trial.schedule):
            found += 1
            if found == _RECOVERED:
                break
        else:
            outlived.add(trial.schedule.digest)
    return [trial for trial in trials if trial.schedule.digest not in outlived]


def _fastest(trials: Sequence[Trial], count: int) -> list[Trial]:
    timed = [(t.result.median_s, t.schedule.digest, t) for t in trials if isinstance(t.result, Measured)]
    return [trial for _, _, trial in sorted(timed, key=lambda entry: entry[:2])[:count]]
