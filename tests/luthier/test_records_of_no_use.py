"""Records outlive the code that made them: one whose Steps do not apply is a miss that is told of, never an error."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from compiler.choice import choose_schedules
from compiler.errors import NotTuned
from compiler.pipeline import load_graph, lower
from compiler.schedule.schedule import Schedule
from compiler.schedule.source import NoSource
from compiler.schedule.steps import Split
from examples.networks import filled
from luthier.api import tune
from luthier.build import BuildOptions, compile_model, make_options, open_log
from luthier.levels import inspect_tasks, level_text
from service.records.source import task_error_budget
from tests.slow import slow
from tuner.measure import Measured
from tuner.record import Trial, TuningRecord
from tuner.task import Task

FAST = Measured((1e-9,) * 3, error=0.0)
NO_SUCH_LOOP = Schedule((Split("anchor", "no such loop", 4),))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return filled("mlp", tmp_path)


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BuildOptions:
    monkeypatch.setenv("LUTHIER_CACHE_DIR", str(tmp_path / "cache"))
    return make_options(threads=1, database=f"sqlite:///{tmp_path / 'log.db'}", predict=False)


def fill(model: Path, options: BuildOptions) -> list[Task]:
    """Records for all Tasks; that of the first one has a Step that does not apply, and was the fastest ever."""
    choices = list(choose_schedules(lower(load_graph(model)), options.target, 1, NoSource()).values())
    budget = task_error_budget(None)
    tasks = [Task(c.workload, options.target, 1, 1, c.lookup.name, budget) for c in choices]
    schedules = [NO_SUCH_LOOP, *(c.found.schedule for c in choices[1:])]
    with open_log(options.database) as log:
        log.put_tasks(tasks)
        log.put_records(
            [TuningRecord(t.key, s, FAST, "here", 0) for t, s in zip(tasks, schedules, strict=True)]
        )
    return tasks


def test_the_task_gets_the_default_and_a_warning_names_it(
    model: Path, options: BuildOptions, caplog: pytest.LogCaptureFixture
) -> None:
    tasks = fill(model, options)
    with caplog.at_level(logging.WARNING, "luthier"):
        image = compile_model(model, options)
    assert [t.lookup for t in image.lookups] == ["default", *["exact"] * (len(tasks) - 1)]
    (warning,) = [r.getMessage() for r in caplog.records if r.name == "luthier"]
    assert tasks[0].name in warning
    assert tasks[0].workload.digest[:12] in warning
    assert "no such loop" in warning


def test_inspecting_shows_what_a_compile_would_use(model: Path, options: BuildOptions) -> None:
    tasks = fill(model, options)
    choices = inspect_tasks(lower(load_graph(model)), options)
    assert [c.lookup.lookup for c in choices] == ["default", *["exact"] * (len(tasks) - 1)]
    assert "for" in level_text(choices[0], "loop", options)


def test_it_does_not_count_where_all_must_be_tuned(model: Path, options: BuildOptions) -> None:
    tasks = fill(model, options)
    with pytest.raises(NotTuned, match=f"1 of {len(tasks)} tasks .*{re.escape(tasks[0].name)}") as raised:
        compile_model(model, options, require_tuned=True)
    assert "luthier tune" in str(raised.value)


@pytest.mark.parametrize("trials", [slow("without trials"), "with the trial of the record"])
def test_tuning_finds_another_whatever_time_it_has(model: Path, options: BuildOptions, trials: str) -> None:
    tasks = fill(model, options)
    if trials == "with the trial of the record":
        with open_log(options.database) as log:
            log.append_trials([Trial(tasks[0].key, NO_SUCH_LOOP, FAST, "here", 0)])
    report = tune(model, trials=9, threads=1, database=options.database)
    assert {t.status for t in report.tasks if t.name == tasks[0].name} <= {"tuned", "default"}
    image = compile_model(model, options, require_tuned=True)
    assert {t.lookup for t in image.lookups} == {"exact"}
