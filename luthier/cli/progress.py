"""Progress of a tuning job on stderr: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from luthier.cli.output import say


class JobEvent(Protocol):
    """An event of a job, from this process or from a server."""

    @property
    def type(self) -> str:
        """Such as "state", "task", "trial" or "best"."""
        ...

    @property
    def data(self) -> Mapping[str, Any]:
        """What happened."""
        ...


Listener = Callable[[JobEvent], None]
_LINE_EVERY_S = 5.0


@dataclass
class Row:
    """What is known of one Task."""

    name: str
    trials: int = 0
    failed: int = 0
    best_s: float | None = None
    untuned_s: float | None = None
    status: str = ""
    touched: int = 0


@dataclass
class JobView:
    """What is known of a job, from its events; `budget_*` are what was asked for."""

    model: str
    budget_trials: int | None = None
    budget_seconds: float | None = None
    state: str = "starting"
    tasks: int = 0
    trials: int = 0
    failed: int = 0
    rows: dict[str, Row] = field(default_factory=dict)
    start_s: float = field(default_factory=time.monotonic)
    events: int = 0

    def apply(self, event: JobEvent) -> None:
        """Take in one event of the job; unknown types change nothing."""
        self.events += 1
        kind, data = event.type, event.data
        if kind == "state":
            self.state = _shown_state(data) or self.state
            self.tasks = int(data.get("tasks", self.tasks))
            self.trials = max(self.trials, int(data.get("trials", 0)))
        elif kind in ("task", "trial", "best") and "workload" in data:
            self._apply_row(kind, data)

    @property
    def elapsed_s(self) -> float:
        """Seconds since this view was made."""
        return time.monotonic() - self.start_s

    @property
    def rate(self) -> float:
        """Trials a second."""
        return self.trials / max(1e-9, self.elapsed_s)

    @property
    def remaining_s(self) -> float | None:
        """Seconds until a budget ends the job; None where none does, or nothing is known yet."""
        limits = []
        if self.budget_seconds is not None:
            limits.append(max(0.0, self.budget_seconds - self.elapsed_s))
        if self.budget_trials is not None and self.trials:
            limits.append(max(0.0, self.budget_trials - self.trials) / self.rate)
        return min(limits, default=None)

    def summary(self) -> str:
        """One line: state, trials, rate, remaining time."""
        parts = [f"{self.state}, {self.elapsed_s:.0f} s", f"{self.trials} trials ({self.rate:.1f} a second)"]
        if self.failed:
            parts.append(f"{self.failed} failed")
        if (remaining := self.remaining_s) is not None and self.state in ("running", "tuning"):
            parts.append(f"at most {remaining:.0f} s left")
        return ", ".join(parts)

    def _apply_row(self, kind: str, data: Mapping[str, Any]) -> None:
        row = self.rows.setdefault(str(data["workload"]), Row(str(data.get("name", ""))))
        row.touched = self.events
        row.untuned_s = data.get("untuned_s") or row.untuned_s
        if kind == "task":
            row.status = str(data.get("status", ""))
            row.best_s = data.get("tuned_s") or row.best_s
            return
        row.best_s = data.get("best_s") or row.best_s
        if kind == "trial":
            row.trials += 1
            self.trials += 1
            if data.get("failure"):
                row.failed += 1
                self.failed += 1


@contextmanager
def show_progress(view: JobView) -> Iterator[Listener]:
    """A listener for the events of a job, shown while the block runs."""
    if sys.stderr.isatty():
        from luthier.cli.live import live_table

        with live_table(view) as listener:
            yield listener
    else:
        yield _Lines(view)


def _shown_state(data: Mapping[str, Any]) -> str | None:
    """The phase of the job, or its state on a server; the search inside it has states of its own ("seconds")."""
    if "phase" in data or "seconds" not in data:
        return str(data.get("phase") or data.get("state"))
    return "deciding" if data.get("state") == "finishing" else None


class _Lines:
    """A line when the state changes or a Task is settled, and every few seconds between."""

    def __init__(self, view: JobView) -> None:
        self._view = view
        self._last_s = float("-inf")

    def __call__(self, event: JobEvent) -> None:
        before = self._view.state
        self._view.apply(event)
        now_s = time.monotonic()
        if event.type == "task":
            row = self._view.rows[str(event.data["workload"])]
            say(f"  {row.status:<11} {microseconds(row.untuned_s)} -> {microseconds(row.best_s)}  {row.name}")
        elif self._view.state != before or now_s - self._last_s > _LINE_EVERY_S:
            self._last_s = now_s
            say(f"{self._view.model}: {self._view.summary()}")


def microseconds(time_s: float | None) -> str:
    """Ten characters, right-aligned."""
    return f"{'–':>10}" if time_s is None else f"{time_s * 1e6:>7.1f} µs"
