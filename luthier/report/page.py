"""The HTML page of a TuningReport: one file that needs no other, readable on a phone and in dark mode."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from string import Template

from luthier.report import svg
from luthier.report.report import TaskReport, TuningReport

_SHOWN_BARS = 24
_SHOWN_PANELS = 36


def page(report: TuningReport) -> str:
    """The whole page; every name from the model is escaped."""
    folder = files("luthier.report")
    template = Template((folder / "page.html").read_text(encoding="utf-8"))
    return template.substitute(
        css=(folder / "page.css").read_text(encoding="utf-8"),
        model=escape(report.model),
        subtitle=escape(f"{report.target}, {_count(report.threads, 'thread')}"),
        verdict=escape(_verdict(report)),
        tiles=_tiles(report),
        bars=_bars(report),
        panels=_panels(report),
        phases=_phases(report),
        table=_table(report),
    )


def _verdict(report: TuningReport) -> str:
    if report.untuned_ms is None or report.tuned_ms is None:
        return "The model was not timed end to end."
    change = f"{report.untuned_ms:.2f} ms untuned, {report.tuned_ms:.2f} ms tuned"
    if not report.published:
        return f"{change}, {report.gain()}: not faster end to end beyond doubt, so the untuned schedules stay in use."
    return f"{change}: {report.gain()}, verified and published."


def _tiles(report: TuningReport) -> str:
    tiles = (
        (_number(report.speedup, "×"), "as fast"),
        (_number(report.untuned_ms, " ms"), "untuned"),
        (_number(report.tuned_ms, " ms"), "tuned"),
        (f"{report.trials}", f"trials, {report.failed_trials} failed"),
        (f"{report.trials_per_second:.1f}", "trials a second"),
        (f"{report.seconds:.0f} s", "in all"),
        (f"{report.records_added}", "records added"),
        (f"{report.cache_hits} of {len(report.tasks)}", "tasks known before"),
    )
    return "".join(f"<div><b>{escape(value)}</b><span>{escape(what)}</span></div>" for value, what in tiles)


def _bars(report: TuningReport) -> str:
    tasks = sorted(report.tasks, key=_share_us, reverse=True)
    shown = tasks[:_SHOWN_BARS]
    rest = len(tasks) - len(shown)
    more = f"<p class='quiet'>{_count(rest, 'smaller task')} below in the table.</p>" if rest else ""
    model = svg.bars([(report.untuned_ms, report.tuned_ms)])
    pairs = svg.bars(
        [(_weighted_ms(t.untuned_us, t.weight), _weighted_ms(t.tuned_us, t.weight)) for t in shown]
    )
    rows = [_bar_row(f"{t.name} ×{t.weight}", t.speedup, pair) for t, pair in zip(shown, pairs, strict=True)]
    whole = _bar_row("whole model", report.speedup, model[0])
    return f"{whole}<h3>Per task, times its weight</h3>{''.join(rows)}{more}"


def _bar_row(label: str, gain: float | None, picture: str) -> str:
    return f"<div class='pair'><span>{escape(label)}</span><span>{_number(gain, '×')}</span>{picture}</div>"


def _panels(report: TuningReport) -> str:
    shown = [t for t in sorted(report.tasks, key=_share_us, reverse=True) if t.curve and t.untuned_us]
    if not shown:
        return "<p class='quiet'>No new trials: every task was already known.</p>"
    return "".join(
        f"<figure><figcaption>{escape(task.name)}</figcaption>"
        f"{svg.convergence(task.curve, task.trials, task.untuned_us or 1.0)}"
        f"<small>{_count(task.trials, 'trial')}, best {_number(task.tuned_us, ' µs')}</small></figure>"
        for task in shown[:_SHOWN_PANELS]
    )


def _phases(report: TuningReport) -> str:
    if not report.phases:
        return "<p class='quiet'>Not recorded.</p>"
    total = sum(report.phases.values()) or 1.0
    legend = "".join(
        f"<li><i class='phase{number % 8}'></i>{escape(name)} <b>{seconds:.1f} s</b> {100 * seconds / total:.0f} %</li>"
        for number, (name, seconds) in enumerate(report.phases.items())
    )
    return f"{svg.stacked(report.phases)}<ul class='legend'>{legend}</ul>"


def _table(report: TuningReport) -> str:
    return "".join(_row(task) for task in sorted(report.tasks, key=_share_us, reverse=True))


def _row(task: TaskReport) -> str:
    fraction = None if task.roofline_fraction is None else 100 * task.roofline_fraction
    cells = (
        f"{task.weight}",
        f"{task.trials}",
        _number(task.untuned_us),
        _number(task.tuned_us),
        _number(task.speedup, "×"),
        _number(task.gflops),
        _number(fraction, " %"),
    )
    numbers = "".join(f"<td class='number'>{escape(cell)}</td>" for cell in cells)
    name = f"{escape(task.name)}<br><code title='{escape(task.workload)}'>{escape(task.workload[:12])}</code>"
    return f"<tr><td>{name}</td>{numbers}<td>{escape(task.status)}</td></tr>"


def _share_us(task: TaskReport) -> float:
    return (task.untuned_us or task.tuned_us or 0.0) * task.weight


def _weighted_ms(time_us: float | None, weight: int) -> float | None:
    return None if time_us is None else time_us * weight / 1000


def _number(value: float | None, unit: str = "") -> str:
    if value is None:
        return "–"  # not measured
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:.{digits}f}{unit}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
