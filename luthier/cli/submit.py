"""`luthier submit`: a tuning job on a server."""

from __future__ import annotations

from typing import Annotated

import typer

from luthier.cli import options
from luthier.cli.output import only_json, put_json, put_text, say
from luthier.cli.progress import JobView, show_progress
from luthier.cli.tune import prepare_report, report_text, write_report
from luthier.shapes import parse_shapes


def submit(
    model: options.Model,
    server: Annotated[
        str | None, typer.Option(metavar="URL", help="[default: LUTHIER_SERVER, else this machine's]")
    ] = None,
    target: options.Target = "native",
    trials: options.Trials = None,
    seconds: options.Seconds = None,
    threads: options.Threads = None,
    shape: options.Shapes = [],  # noqa: B006  (typer copies it)
    error_budget: options.ErrorBudget = None,
    seed: options.Seed = 0,
    runner: options.Runner = options.RunnerName.LOCAL,
    report: options.Report = None,
    json: options.Json = False,
) -> None:
    """Upload a model, have the server tune it, wait with live progress. LUTHIER_TOKEN holds the token."""
    with only_json():
        from luthier.client import Client
        from luthier.report.report import TuningReport
        from service.settings import Settings

        settings = Settings()
        prepare_report(report)
        with Client(server or settings.server_url, settings.token_text) as client:
            job = client.submit(
                model,
                target=target,
                trials=trials,
                seconds=seconds,
                threads=threads,
                shapes=parse_shapes(shape),
                error_budget=error_budget,
                seed=seed,
                runner=runner.value,
            )
            try:
                with show_progress(JobView(model.stem, trials, seconds)) as listener:
                    job.wait(progress=listener)
            except KeyboardInterrupt:
                say(f"luthier: no longer waiting; job {job.id} goes on, and the same command finds it again")
                raise typer.Exit(130) from None
            document = job.report()
        found = TuningReport.from_json(document)
        write_report(report, found)
    if json:
        put_json({"id": job.id, "state": "succeeded", "report": found.to_json()})
    else:
        put_text(report_text(found))
