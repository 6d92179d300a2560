"""`luthier compile`: look-ups and code generation, no measurement."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from compiler.errors import InputError
from luthier.cli import options
from luthier.cli.output import only_json, put_json, put_text
from luthier.shapes import parse_shapes

if TYPE_CHECKING:
    from compiler.runtime.module import Module

SUFFIX = ".luthier"


def compile_(
    model: options.Model,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="OUT.luthier", help="the file to write")],
    target: options.Target = "native",
    threads: options.Threads = None,
    shape: options.Shapes = [],  # noqa: B006  (typer copies it)
    error_budget: options.ErrorBudget = None,
    database: options.Database = None,
    require_tuned: Annotated[
        bool, typer.Option("--require-tuned", help="fail, and write nothing, where a task has no record")
    ] = False,
    json: options.Json = False,
) -> None:
    """Compile a model with what the tuning log knows; says for each task where its schedule came from."""
    start = time.perf_counter()
    with only_json():
        from luthier.build import build_module, make_options, read_program
        from luthier.files import check_writable, write_atomically

        _check_suffix(output)
        check_writable(output)
        chosen = make_options(target, threads, parse_shapes(shape), error_budget, database)
        module = build_module(read_program(model, chosen), chosen, require_tuned=require_tuned)
        try:
            code = module.to_bytes()
            write_atomically(output, code)
            document = compile_document(model.stem, module, output, len(code), time.perf_counter() - start)
        finally:
            module.close()
    if json:
        put_json(document)
    else:
        put_text(_text(document))


def compile_document(model: str, module: Module, output: Path, size: int, seconds: float) -> dict[str, Any]:
    """The JSON document of the contract (docs/contracts/compile.schema.json)."""
    answers = [task.lookup for task in module.lookups]
    return {
        "model": model,
        "target": module.target.name,
        "output": str(output),
        "seconds": round(seconds, 3),
        "tasks": [
            {"workload": t.workload, "name": t.name, "lookup": t.lookup, "expected_loss": t.expected_loss}
            for t in module.lookups
        ],
        "hits": answers.count("exact"),
        "near": answers.count("near"),
        "misses": answers.count("predicted") + answers.count("default"),
        "bytes": size,
    }


def _check_suffix(output: Path) -> None:
    if output.suffix == ".so":
        msg = f"shared libraries cannot be written yet ({output}); name an output that ends in {SUFFIX}"
        raise InputError(msg)
    if output.suffix != SUFFIX:
        msg = f"{output} does not end in {SUFFIX}; name an output such as {output.with_suffix(SUFFIX).name}"
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
