"""`luthier log`: what the tuning log holds, and moving it between machines."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from compiler.errors import InputError
from luthier.cli import options
from luthier.cli.output import only_json, put_json, put_text

if TYPE_CHECKING:
    from service.records.log import SqlTuningLog

app = typer.Typer(help="Look into the tuning log, and move it.", no_args_is_help=True, rich_markup_mode=None)


@app.command()
def stats(database: options.Database = None, json: options.Json = False) -> None:
    """Count what the tuning log holds."""
    with only_json(), _log(database) as log:
        document = {"database": log.database.url, **log.stats()}
    lines = "\n".join(f"{name.replace('_', ' '):>14}  {value}" for name, value in document.items())
    _answer(document, lines, json=json)


@app.command()
def export(
    output: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="default: stdout")] = None,
    database: options.Database = None,
    trials: Annotated[bool, typer.Option(help="trials too, not only records")] = True,
    json: options.Json = False,
) -> None:
    """Write the tuning log as JSON lines."""
    if output is None:
        if json:
            msg = "--json needs a FILE to export to, because the export itself would go to stdout"
            raise typer.BadParameter(msg)
        with _log(database) as log:
            log.export(sys.stdout, trials=trials)
        return
    from luthier.files import atomic_text

    with only_json(), _log(database) as log, atomic_text(output) as stream:
        lines = log.export(stream, trials=trials)
    _answer({"output": str(output), "lines": lines}, f"{output}: {lines} lines", json=json)


@app.command("import")
def import_(
    source: Annotated[
        Path, typer.Argument(metavar="FILE", help="what `luthier log export` wrote; - for stdin")
    ],
    database: options.Database = None,
    json: options.Json = False,
) -> None:
    """Merge an exported log, all of it or nothing."""
    with only_json(), _log(database) as log:
        counts = log.merge(sys.stdin) if str(source) == "-" else _merge_file(log, source)
    _answer(
        {"input": str(source), **counts},
        f"{counts['records']} new records, {counts['trials']} new trials from {counts['lines']} lines",
        json=json,
    )


@app.command()
def prune(
    days: Annotated[float, typer.Option(min=0, help="delete what is older than this")] = 90.0,
    database: options.Database = None,
    json: options.Json = False,
) -> None:
    """Delete old trials, what old jobs left and records of other code generators; served records stay."""
    with only_json(), _log(database) as log:
        counts = log.prune(days)
    what = f"{counts['trials']} trials, {counts['records']} records"
    _answer(counts, f"removed {what} and {counts['blobs']} pieces of models and artifacts", json=json)


def _merge_file(log: SqlTuningLog, source: Path) -> dict[str, int]:
    try:
        with source.open(encoding="utf-8") as lines:
            return log.merge(lines)
    except (OSError, UnicodeDecodeError) as error:
        msg = f"cannot read {source} ({error}); name a file that `luthier log export` wrote"
        raise InputError(msg) from error


@contextmanager
def _log(database: str | None) -> Iterator[SqlTuningLog]:
    from service.db.upgrade import open_database
    from service.records.log import SqlTuningLog
    from service.settings import Settings

    opened = open_database(database or Settings().database_url)
    try:
        yield SqlTuningLog(opened)
    finally:
        opened.close()


def _answer(document: dict[str, Any], text: str, *, json: bool) -> None:
    if json:
        put_json(document)
    else:
        put_text(text)
