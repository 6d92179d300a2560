"""`luthier tune`: a tuning job in this process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from luthier.cli import options
from luthier.cli.output import only_json, put_json, put_text, say
from luthier.cli.progress import JobView, show_progress
from luthier.shapes import parse_shapes

if TYPE_CHECKING:
    from luthier.report.report import TuningReport


def tune(
    model: options.Model,
    target: options.Target = "native",
    trials: options.Trials = None,
    seconds: options.Seconds = None,
    threads: options.Threads = None,
    shape: options.Shapes = [],  # noqa: B006  (typer copies it)
    error_budget: options.ErrorBudget = None,
    database: options.Database = None,
    seed: options.Seed = 0,
    runner: options.Runner = options.RunnerName.LOCAL,
    report: options.Report = None,
    json: options.Json = False,
) -> None:
    """Search schedules for every task of a model, and keep the verified winners in the tuning log.

    The same command after a crash resumes the job; after success it starts from what the log knows.
    """
    try:
        with only_json():
            from luthier.build import make_options
            from luthier.tuning import run_job

            chosen = make_options(target, threads, parse_shapes(shape), error_budget, database)
            prepare_report(report)
            with show_progress(JobView(model.stem, trials, seconds)) as listener:
                found = run_job(
                    model,
                    chosen,
                    trials=trials,
                    seconds=seconds,
                    seed=seed,
                    runner=runner.value,
                    progress=listener,
                )
            write_report(report, found)
    except KeyboardInterrupt:
        say("luthier: stopped; what was measured is kept, and the same command goes on from there")
        raise typer.Exit(130) from None
    if json:
        put_json(found.to_json())
    else:
        put_text(report_text(found))


def prepare_report(folder: Path | None) -> None:
    """Make the folder of --report before any work; raises InputError where that is not possible."""
    from luthier.files import check_writable, make_folder

    if folder is not None:
        make_folder(folder)
        check_writable(folder / "report.html")


def write_report(folder: Path | None, report: TuningReport) -> None:
    """Write report.json and report.html, each whole or not at all."""
    import json

    from luthier.files import write_atomically

    if folder is not None:
        text = json.dumps(report.to_full_json(), indent=2, ensure_ascii=False)
        write_atomically(folder / "report.json", text.encode())
        report.save_html(folder / "report.html")
        say(f"report: {folder / 'report.html'}")


def report_text(report: TuningReport) -> str:
    """The report as a table for people."""
    lines = [
        f"{'untuned µs':>10}  {'tuned µs':>10}  {'gain':>6}  {'trials':>6}  {'GFLOP/s':>8}  {'status':<11}  task"
    ]
    for task in report.tasks:
        gain = "" if task.speedup is None else f"{task.speedup:.2f}×"
        lines.append(
            f"{_number(task.untuned_us)}  {_number(task.tuned_us)}  {gain:>6}  {task.trials:>6}  "
            f"{_number(task.gflops, 8)}  {task.status:<11}  {task.name} ×{task.weight}"
        )
    if report.untuned_ms is not None and report.tuned_ms is not None:
        published = (
            "published" if report.published else "not faster end to end beyond doubt, so not published"
        )
        lines.append(
            f"{report.model}: {report.untuned_ms:.3f} ms untuned, {report.tuned_ms:.3f} ms tuned, "
            f"{report.gain()}: {published}"
        )
    lines.append(
        f"{report.trials} trials ({report.failed_trials} failed) in {report.seconds:.0f} s, "
        f"{report.records_added} records added, {report.cache_hits} tasks known before"
    )
    return "\n".join(lines)


def _number(value: float | None, width: int = 10) -> str:
    return f"{'–':>{width}}" if value is None else f"{value:>{width}.1f}"
