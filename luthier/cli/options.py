"""Options that several commands share, checked when they are parsed: a wrong one is a usage error (exit 2)."""

from __future__ import annotations

import enum
import math
from pathlib import Path
from typing import Annotated

import typer

from luthier.shapes import parse_shape


def _positive(value: float | None) -> float | None:
    if value is not None and not (math.isfinite(value) and value > 0):
        message = "must be a number above 0"
        raise typer.BadParameter(message)
    return value


def _budget(value: float | None) -> float | None:
    if value is not None and not 0 < value < 1:
        message = "must be above 0 and below 1, such as 1e-4"
        raise typer.BadParameter(message)
    return value


def _shapes(values: list[str]) -> list[str]:
    for text in values:
        try:
            parse_shape(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
    return values


class RunnerName(enum.StrEnum):
    """What --runner accepts."""

    LOCAL = "local"
    RAY = "ray"


Model = Annotated[Path, typer.Argument(metavar="MODEL", help="an ONNX file")]
Json = Annotated[bool, typer.Option("--json", help="print one JSON document on stdout and nothing else")]
Target = Annotated[str, typer.Option(metavar="T", help="what to compile for")]
Threads = Annotated[
    int | None,
    typer.Option(min=1, max=1024, metavar="N", help="threads of the model [default: all usable cores]"),
]
Shapes = Annotated[
    list[str],
    typer.Option("--shape", callback=_shapes, metavar="NAME=1,128", help="shape of an input; repeatable"),
]
ErrorBudget = Annotated[
    float | None,
    typer.Option(
        callback=_budget, metavar="E", help="largest error relative to the largest output [default: 1e-4]"
    ),
]
Database = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="tuning log [default: LUTHIER_DATABASE_URL, else SQLite in your data folder]"
    ),
]
Trials = Annotated[int | None, typer.Option(min=0, metavar="N", help="new trials over all tasks")]
Seconds = Annotated[float | None, typer.Option(callback=_positive, metavar="S", help="wall clock of the job")]
Seed = Annotated[int, typer.Option(min=0, metavar="N", help="seed of the search")]
Runner = Annotated[RunnerName, typer.Option(help="where candidates are measured")]
Report = Annotated[Path | None, typer.Option(metavar="DIR", help="write report.html and report.json there")]
