"""`luthier compile`: look-ups and code generation, no measurement."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from compiler.errors import InputError
from luthier.cli import options
from luthier.cli.output import only_json, put_json, put_text
from luthier.shapes import parse_sizes

if TYPE_CHECKING:
    from compiler.runtime.image import Image
    from luthier.build import BuildOptions

SUFFIXES = (".luthier", ".so")


def compile_(
    model: options.Model,
    output: Annotated[
        Path,
        typer.Option(
            "-o", "--output", metavar="OUT.luthier|OUT.so", help="the file to write; .so: with OUT.h"
        ),
    ],
    target: options.Target = "native",
    threads: options.Threads = None,
    shape: options.Shapes = [],  # noqa: B006  (typer copies it)
    error_budget: options.ErrorBudget = None,
    database: options.Database = None,
    require_tuned: Annotated[
        bool, typer.Option("--require-tuned", help="fail, and write nothing, where a task has no record")
    ] = False,
    predict: Annotated[
        bool,
        typer.Option(help="let the shipped cost model choose where there is no record, or take the default"),
    ] = True,
    json: options.Json = False,
) -> None:
    """Compile a model with what the tuning log knows; says for each task where its schedule came from."""
    start = time.perf_counter()
    with only_json():
        from compiler.runtime.artifact import write_image
        from compiler.runtime.library.write import check_library, write_library
        from luthier.build import compile_model, make_options
        from luthier.files import check_writable

        _check_suffix(output)
        check_writable(output)
        shapes = parse_sizes(shape)
        chosen = make_options(
            target, threads, shapes, error_budget, database, predict=predict, runs_here=False
        )
        library = output.suffix == ".so"
        if library:
            check_library(chosen.target)
            _check_one_size(chosen, output)
        image = compile_model(model, chosen, any_size=not library, require_tuned=require_tuned)
        (write_library if library else write_image)(image, output)
        size = output.stat().st_size
        document = compile_document(model.stem, image, output, size, time.perf_counter() - start)
    if json:
        put_json(document)
    else:
        put_text(_text(document))


def compile_document(model: str, image: Image, output: Path, size: int, seconds: float) -> dict[str, Any]:
    """The JSON document of the contract (docs/contracts/compile.schema.json)."""
    answers = [task.lookup for task in image.all_lookups]
    return {
        "model": model,
        "target": image.target.name,
        "output": str(output),
        "seconds": round(seconds, 3),
        "tasks": [
            {"workload": t.workload, "name": t.name, "lookup": t.lookup, "expected_loss": t.expected_loss}
            for t in image.all_lookups
        ],
        "hits": answers.count("exact"),
        "near": answers.count("near"),
        "misses": answers.count("predicted") + answers.count("default"),
        "bytes": size,
    }


def _check_one_size(options: BuildOptions, output: Path) -> None:
    if options.sizes:
        msg = f"{output.name} would have one size, and {len(options.sizes)} are named; write a .luthier file"
        raise InputError(msg)


def _check_suffix(output: Path) -> None:
    if output.suffix not in SUFFIXES:
        names = " or ".join(output.with_suffix(suffix).name for suffix in SUFFIXES)
        msg = f"{output} does not end in {' or '.join(SUFFIXES)}; name an output such as {names}"
        raise InputError(msg)


def _text(document: dict[str, Any]) -> str:
    lines = [f"  {task['lookup']:<9}  {task['workload'][:12]}  {task['name']}" for task in document["tasks"]]
    return "\n".join(
        [
            *lines,
            f"{document['output']}: {document['bytes']} bytes for {document['target']} in {document['seconds']:.1f} s, "
            f"{document['hits']} exact, {document['near']} near, {document['misses']} missing",
        ]
    )
