"""The command `luthier`. Exit status: 0 done, 1 failed with one sentence, 2 wrong usage, 130 interrupted."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from compiler.errors import LuthierError
from luthier.cli import bench, compile, db, doctor, inspect, log, serve, submit, tune
from luthier.cli.output import say

app = typer.Typer(
    name="luthier",
    help="Tune ONNX models for the machine they will run on, and remember what was learned.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("tune")(tune.tune)
app.command("compile")(compile.compile_)
app.command("bench")(bench.bench)
app.command("inspect")(inspect.inspect)
app.command("serve")(serve.serve)
app.command("submit")(submit.submit)
app.add_typer(log.app, name="log")
app.add_typer(db.app, name="db")
app.command("doctor")(doctor.doctor)


def _version(wanted: bool) -> None:  # noqa: FBT001  (typer calls it with the flag's value)
    if wanted:
        from luthier import __version__

        typer.echo(f"luthier {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    """Tune ONNX models for the machine they will run on, and remember what was learned."""


def main() -> None:
    """Run the command line; every error that is not a bug ends in one sentence on stderr."""
    try:
        app()
    except LuthierError as error:
        say(f"luthier: {error}")
        sys.exit(1)
