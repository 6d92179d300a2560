"""`luthier bench`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from luthier.cli import options
from luthier.cli.output import only_json, put_json, put_text
from luthier.shapes import parse_shapes


def bench(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL|OUT", help="an ONNX file, or what luthier compile wrote")
    ],
    threads: options.Threads = None,
    against: Annotated[
        str,
        typer.Option(
            metavar="NAMES", help="engines to compare with, separated by commas: onnxruntime, openvino"
        ),
    ] = "",
    seconds: options.Seconds = 5.0,
    shape: options.Shapes = [],  # noqa: B006  (typer copies it)
    error_budget: options.ErrorBudget = None,
    database: options.Database = None,
    json: options.Json = False,
) -> None:
    """Time a model, in alternation with other engines, and measure the error of each."""
    with only_json():
        from luthier.bench.run import bench as run
        from luthier.build import make_options

        peers = [name.strip() for name in against.split(",") if name.strip()]
        chosen = make_options(None, threads, parse_shapes(shape), error_budget, database)
        document = run(model, chosen, peers, seconds or 5.0)
    if json:
        put_json(document)
    else:
        put_text(_text(document))


def _text(document: dict[str, Any]) -> str:
    threads = document["threads"]
    lines = [f"{document['model']} on {document['target']}, {threads} thread{'s' if threads > 1 else ''}"]
    for result in document["results"]:
        error = result["max_relative_error"]
        ratio = document["ratio"].get(result["engine"])
        lines.append(
            f"  {result['engine']:<12} {result['median_ms']:9.3f} ms  "
            f"(p10 {result['p10_ms']:.3f}, p90 {result['p90_ms']:.3f}, {result['runs']} runs)"
            + ("" if error is None else f"  error {error:.1e}")
            + ("" if ratio is None else f"  luthier is {ratio:.2f} times as fast")
        )
    return "\n".join(lines)
