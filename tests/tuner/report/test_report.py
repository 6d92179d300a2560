from __future__ import annotations

import json

import pytest

from tests.tuner import toy
from tuner.outcome import SessionResult, TaskResult
from tuner.report.report import session_report

SMALL, LARGE, UNKNOWN = toy.task(32, weight=3), toy.task(64), toy.task(96)


def outcome() -> SessionResult:
    def result(task: object, untuned_s: float | None, tuned_s: float | None) -> TaskResult:
        return TaskResult(
            task=task,  # type: ignore[arg-type]
            trials=4,
            failed=1,
            untuned_s=untuned_s,
            tuned_s=tuned_s,
            schedule=toy.default() if tuned_s else None,
            curve=((1, 0.5, untuned_s), (3, 1.5, tuned_s)) if untuned_s and tuned_s else (),
            status="tuned" if tuned_s else "failed",
            cached=False,
        )

    return SessionResult(
        tasks=(result(SMALL, 2.0, 1.0), result(LARGE, 9.0, 5.0), result(UNKNOWN, None, None)),
        phase_seconds={"search": 1.0, "measure": 3.0},
        records_added=2,
        trials=12,
        failed_trials=3,
        cost_model={"samples": 12},
    )


def test_before_and_after_are_weighted() -> None:
    report = session_report(outcome())
    assert report["model"] == {"untuned_s": 15.0, "tuned_s": 8.0, "speedup": 15.0 / 8.0, "tasks_timed": 2}
    assert [task["name"] for task in report["tasks"]] == [LARGE.name, SMALL.name, UNKNOWN.name]
    assert [task["saved_s"] for task in report["tasks"]] == [4.0, 3.0, None]
    assert report["tasks"][0]["gflops"] == pytest.approx(LARGE.workload.operations / 5.0 / 1e9)
    assert report["tasks"][1]["curve"] == [[1, 0.5, 2.0], [3, 1.5, 1.0]]


def test_phases_have_shares() -> None:
    assert session_report(outcome())["phase_shares"] == {"search": 0.25, "measure": 0.75}


def test_it_is_plain_json() -> None:
    report = session_report(outcome())
    assert json.loads(json.dumps(report, allow_nan=False)) == report
    empty = session_report(SessionResult((), {}, 0, 0, 0, {}))
    assert empty["model"]["speedup"] is None
