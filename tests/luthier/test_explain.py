"""Why a schedule is served, over a log made by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from compiler.choice import Choice, choose_schedules
from compiler.pipeline import load_graph, lower
from compiler.space.rules import build_space
from examples.networks import filled
from luthier.build import BuildOptions, make_options, open_log
from luthier.cli.why import explanation_text
from luthier.explain import explain
from service.records.source import SqlScheduleSource, task_error_budget
from tuner.candidate import Candidate
from tuner.finals import evidence
from tuner.measure import FailureKind, Measured, MeasureFailed
from tuner.record import Trial, TuningRecord
from tuner.task import Task

SLOWER = 1.25


def _samples(median_s: float) -> Measured:
    return Measured(tuple(median_s * (1 + 1e-4 * step) for step in range(16)), 1e-7)


def _choices(model: Path, options: BuildOptions) -> list[Choice]:
    with open_log(options.database) as log:
        source = SqlScheduleSource(log)
        program = lower(load_graph(model))
        return list(choose_schedules(program, options.target, options.threads, source).values())


def _fill(options: BuildOptions, choice: Choice, *, untouched: bool = False) -> TuningRecord:
    """A record of a start of the space against the default, with a failure beside it."""
    budget = task_error_budget(None)
    task = Task(choice.workload, options.target, options.threads, 1, "t", budget)
    space = build_space(choice.workload, options.target, options.threads)
    default = space.schedule(space.default)
    other = replace(default, steps=default.steps[:-1])
    timed = [(Candidate(default), _samples(SLOWER * 1e-3)), (Candidate(other), _samples(1e-3))]
    found = evidence(timed, Candidate(other), None if untouched else np.array([0.1, 0.9]))
    record = TuningRecord(
        task.key, other, timed[1][1], "here", 0, untuned_s=SLOWER * 1e-3, provenance={"stage": "final"}
    )
    record.provenance.update(compared=[default.digest, other.digest], evidence=found)
    with open_log(options.database) as log:
        log.put_tasks([task])
        failed = MeasureFailed(FailureKind.TIMEOUT, "did not end")
        log.append_trials(
            [Trial(task.key, s, r, "here", 0) for s, r in ((other, timed[1][1]), (default, failed))]
        )
        assert log.put_records([record]) == 1
    return record


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return filled("mlp", tmp_path)


@pytest.fixture
def options(tmp_path: Path) -> BuildOptions:
    return make_options(threads=1, database=f"sqlite:///{tmp_path / 'log.db'}")


def test_without_a_record_it_says_so(model: Path, options: BuildOptions) -> None:
    explanation = explain(_choices(model, options)[0], options)
    assert (explanation.lookup, explanation.median_s, explanation.rivals) == ("default", None, ())
    assert explanation.trials == {}
    text = explanation_text(explanation)
    assert "no record: the default schedule" in text
    assert "trials in the log: none" in text


def test_a_record_is_held_against_what_it_was_compared_with(model: Path, options: BuildOptions) -> None:
    record = _fill(options, _choices(model, options)[0])
    explanation = explain(_choices(model, options)[0], options)
    assert explanation.median_s == record.measured.median_s
    assert explanation.rank == 1
    assert explanation.trials == {"measured": 1, "timeout": 1}
    (rival,) = explanation.rivals
    assert rival.is_default
    assert rival.slower[1] == pytest.approx(SLOWER)
    assert rival.rank == 2
    assert rival.only_here is not None
    assert len(rival.only_here) == 1
    assert rival.only_served == ()
    text = explanation_text(explanation)
    assert "default schedule 1250.0 us: 1.25 times as long" in text
    assert "against the default" in text
    assert f"- {rival.only_here[0]}" in text
    assert "the cost model's number 1 of 2 compared" in text


def test_where_no_model_was_trained_it_claims_nothing(model: Path, options: BuildOptions) -> None:
    _fill(options, _choices(model, options)[0], untouched=True)
    explanation = explain(_choices(model, options)[0], options)
    assert explanation.rank is None
    assert "cost model" not in explanation_text(explanation)


@pytest.mark.parametrize(
    "entries", ["no list", [{"schedule": 3}], [{"schedule": "a", "slower": [1, None, 2]}]]
)
def test_evidence_of_an_imported_log_is_not_believed_blindly(
    model: Path, options: BuildOptions, entries: object
) -> None:
    record = _fill(options, _choices(model, options)[0])
    forged = replace(record, provenance={**record.provenance, "evidence": entries})
    with open_log(options.database) as log:
        assert log.put_records([forged]) == 1
    assert explain(_choices(model, options)[0], options).rivals == ()
