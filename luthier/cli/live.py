"""The live table of a tuning job, for terminals."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from luthier.cli.progress import JobEvent, JobView, Listener, Row

_MOST_ROWS = 24


@contextmanager
def live_table(view: JobView) -> Iterator[Listener]:
    """Redraw the table a few times a second until the block ends, and leave the last one standing."""
    lock = threading.Lock()

    def draw() -> Group:
        with lock:
            return Group(Text(f"{view.model}: {view.summary()}", style="bold"), _table(view))

    def listener(event: JobEvent) -> None:
        with lock:
            view.apply(event)

    console = Console(stderr=True)
    with Live(get_renderable=draw, console=console, refresh_per_second=4, redirect_stdout=False):
        yield listener


def _table(view: JobView) -> Table:
    table = Table(box=None, pad_edge=False, show_edge=False)
    table.add_column("task", overflow="ellipsis", no_wrap=True, ratio=1)
    for name in ("trials", "untuned µs", "best µs", "gain"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    recent = sorted(view.rows.values(), key=lambda row: row.touched, reverse=True)[:_MOST_ROWS]
    for row in view.rows.values():
        if row in recent:
            table.add_row(*_cells(row))
    hidden = max(view.tasks, len(view.rows)) - len(recent)
    if hidden:
        table.add_row(Text(f"and {hidden} more", style="dim"))
    return table


def _cells(row: Row) -> tuple[Text | str, ...]:
    gain = f"{row.untuned_s / row.best_s:.2f}×" if row.untuned_s and row.best_s else ""
    trials = f"{row.trials}" + (f" ({row.failed} failed)" if row.failed else "")
    return Text(row.name), trials, _number(row.untuned_s), _number(row.best_s), gain, Text(row.status)


def _number(time_s: float | None) -> str:
    return "" if time_s is None else f"{time_s * 1e6:.1f}"
