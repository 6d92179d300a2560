from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import pytest
from rich.console import Console

from luthier.cli.live import _table
from luthier.cli.progress import JobView, show_progress


@dataclass
class _Event:
    type: str
    data: dict[str, Any]


def _trial(name: str, best_us: float, failure: str | None = None) -> _Event:
    return _Event(
        "trial", {"workload": name, "name": name, "trials": 1, "best_s": best_us * 1e-6, "failure": failure}
    )


EVENTS = (
    _Event("state", {"state": "running", "phase": "tuning"}),
    _Event("state", {"state": "running", "tasks": 2, "trials": 0, "seconds": 0.1}),
    _trial("conv [bold]x[/bold]", 30.0),
    _trial("conv [bold]x[/bold]", 20.0, "timeout"),
    _trial("matmul", 5.0),
    _Event("state", {"state": "finishing", "tasks": 2, "trials": 3, "seconds": 4.0}),
    _Event(
        "task",
        {
            "workload": "matmul",
            "name": "matmul",
            "status": "tuned",
            "untuned_s": 8e-6,
            "tuned_s": 4e-6,
            "trials": 1,
        },
    ),
    _Event("someday", {"what": "ever"}),
)


def test_a_view_follows_the_events() -> None:
    view = JobView("model", budget_trials=9, budget_seconds=60.0)
    for event in EVENTS[:5]:
        view.apply(event)
    assert view.state == "tuning"
    assert (view.trials, view.failed, view.tasks) == (3, 1, 2)
    assert view.remaining_s is not None
    assert view.remaining_s <= 60.0
    for event in EVENTS[5:]:
        view.apply(event)
    assert view.state == "deciding"
    row = view.rows["matmul"]
    assert (row.trials, row.best_s, row.untuned_s, row.status) == (1, 4e-6, 8e-6, "tuned")


def test_without_a_terminal_there_are_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress(JobView("model")) as listener:
        for event in EVENTS:
            listener(event)
    output = capsys.readouterr()
    assert output.out == ""
    assert "model: tuning" in output.err
    assert "8.0 µs" in output.err
    assert "4.0 µs" in output.err
    assert "\x1b" not in output.err


def test_the_live_table_shows_names_as_they_are() -> None:
    view = JobView("model")
    for event in EVENTS:
        view.apply(event)
    console = Console(file=io.StringIO(), width=100)
    console.print(_table(view))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "conv [bold]x[/bold]" in text
    assert "2.00×" in text
    assert "2 (1 failed)" in text
