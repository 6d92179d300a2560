"""Why a Task's schedule is the one that is served: what `luthier inspect --task DIGEST --why` shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from compiler.choice import Choice
from compiler.schedule.schedule import Schedule
from compiler.schedule.steps import Step, step_json
from compiler.space.rules import build_space
from luthier.build import BuildOptions, open_log
from tuner.measure import Measured
from tuner.record import CODEGEN_EPOCH, Trial, TuningRecord
from tuner.task import RecordKey, error_class

MOST_TRIALS = 10_000
"""So many of the newest trials are looked at."""


@dataclass(frozen=True)
class Rival:
    """A schedule that was timed in turns with the served one.

    Attributes:
        schedule: its digest.
        is_default: whether it is what would run without tuning.
        median_s: seconds per run.
        slower: how many times slower than the served one: lower bound, median and upper bound over the rounds; None for
            no bound.
        rank: its place in the cost model's order at that time, 1 for the best; None where no model was trained.
        only_here, only_served: steps that one has and the other has not; None where its trial is no longer in the log.
    """

    schedule: str
    is_default: bool
    median_s: float
    slower: tuple[float, float, float | None]
    rank: int | None
    only_here: tuple[str, ...] | None
    only_served: tuple[str, ...] | None


@dataclass(frozen=True)
class Explanation:
    """Where the schedule of a Task comes from.

    Attributes:
        lookup: how the compiler found the schedule; only "exact" has a record.
        steps: of the schedule that compiling would use now.
        median_s, error: of the record: seconds per run, error relative to the largest output.
        untuned_s: the default schedule in the same comparison; None where it was not timed.
        stage: "final" after a comparison, "provisional" where a session ended before it.
        device, job: where and for which job it was measured.
        rank: the cost model's for the served schedule among the compared ones.
        rivals: what it was compared with, the fastest first.
        trials: how many the log has, by outcome ("measured", or a kind of failure).
    """

    workload: str
    name: str
    lookup: str
    steps: tuple[str, ...]
    median_s: float | None
    error: float | None
    untuned_s: float | None
    stage: str | None
    device: str | None
    job: str | None
    rank: int | None
    rivals: tuple[Rival, ...]
    trials: dict[str, int]


def explain(choice: Choice, options: BuildOptions) -> Explanation:
    """Gather what the tuning log knows of a Task; raises DatabaseError."""
    budget = options.task_error_budget
    key = RecordKey(choice.workload.digest, options.target.digest, options.threads, error_class(budget))
    with open_log(options.database) as log:
        record, trials = log.records([key]).get(key), log.trials(key, MOST_TRIALS)
    if record is not None and (choice.lookup.lookup != "exact" or record.codegen_epoch != CODEGEN_EPOCH):
        record = None
    space = build_space(choice.workload, options.target, options.threads, budget)
    default = space.schedule(space.default)
    evidence = [] if record is None else _evidence(record)
    ranks = _ranks(evidence)
    schedules = {default.digest: default, **{t.schedule.digest: t.schedule for t in trials}}
    served = choice.found.schedule
    rivals = [
        _rival(entry, ranks, served, schedules, default.digest)
        for entry in sorted(evidence, key=lambda entry: entry["median_s"])
        if entry["schedule"] != served.digest
    ]
    return Explanation(
        workload=choice.workload.digest,
        name=choice.lookup.name,
        lookup=choice.lookup.lookup,
        steps=tuple(map(step_text, served.steps)),
        median_s=None if record is None else record.measured.median_s,
        error=None if record is None else record.measured.error,
        untuned_s=None if record is None or not record.untuned_s else record.untuned_s,
        stage=None if record is None else str(record.provenance.get("stage", "final")),
        device=None if record is None else record.device,
        job=None if record is None else record.provenance.get("job"),
        rank=ranks.get(served.digest),
        rivals=tuple(rivals),
        trials=_outcomes(trials),
    )


def step_text(step: Step) -> str:
    """A step on one line, such as `Split stage=anchor loop=i factor=6`."""
    name, *fields = step_json(step).items()
    return " ".join([str(name[1]), *(f"{key}={_value_text(value)}" for key, value in fields)])


def _value_text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _evidence(record: TuningRecord) -> list[dict[str, Any]]:
    """The comparison's entries; none of what an imported log has in their place."""
    entries = record.provenance.get("evidence")
    return [e for e in entries if _is_entry(e)] if isinstance(entries, list) else []


def _is_entry(entry: object) -> bool:
    if not isinstance(entry, dict) or not isinstance(entry.get("schedule"), str):
        return False
    slower, believed = entry.get("slower"), entry.get("believed")
    return (
        isinstance(entry.get("median_s"), int | float)
        and isinstance(slower, list)
        and len(slower) == 3
        and all(isinstance(bound, int | float) for bound in slower[:2])
        and isinstance(slower[2], int | float | None)
        and isinstance(believed, int | float | None)
    )


def _ranks(evidence: Sequence[dict[str, Any]]) -> dict[str, int]:
    believed = [entry for entry in evidence if entry["believed"] is not None]
    ordered = sorted(believed, key=lambda entry: -entry["believed"])
    return {entry["schedule"]: place for place, entry in enumerate(ordered, 1)}


def _rival(
    entry: dict[str, Any],
    ranks: dict[str, int],
    served: Schedule,
    schedules: dict[str, Schedule],
    default: str,
) -> Rival:
    digest, (low, median, high) = entry["schedule"], entry["slower"]
    other = schedules.get(digest)
    here, there = (None, None) if other is None else (_without(other, served), _without(served, other))
    return Rival(
        schedule=digest,
        is_default=digest == default,
        median_s=entry["median_s"],
        slower=(low, median, high),
        rank=ranks.get(digest),
        only_here=here,
        only_served=there,
    )


def _without(schedule: Schedule, other: Schedule) -> tuple[str, ...]:
    left = Counter(map(step_text, other.steps))
    kept = []
    for text in map(step_text, schedule.steps):
        if left[text]:
            left[text] -= 1
        else:
            kept.append(text)
    return tuple(kept)


def _outcomes(trials: Sequence[Trial]) -> dict[str, int]:
    found = Counter(
        "measured" if isinstance(t.result, Measured) else t.result.kind.value
        for t in trials
        if t.codegen_epoch == CODEGEN_EPOCH
    )
    return dict(found.most_common())
