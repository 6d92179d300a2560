"""`luthier inspect`: the Tasks of a model, and what the compiler makes of them at each level."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from luthier.cli import options
from luthier.cli.bisect import run_bisect
from luthier.cli.output import only_json, put_json, put_text
from luthier.cli.why import explanation_text
from luthier.shapes import parse_shapes

if TYPE_CHECKING:
    from compiler.choice import Choice
    from luthier.build import BuildOptions
    from luthier.explain import Explanation


class PrintLevel(enum.StrEnum):
    """What --print accepts."""

    GRAPH = "graph"
    LOOP = "loop"
    LLVM = "llvm"
    ASM = "asm"


_KERNEL_LEVELS: Mapping[PrintLevel, Literal["loop", "llvm", "asm"]] = {
    PrintLevel.LOOP: "loop",
    PrintLevel.LLVM: "llvm",
    PrintLevel.ASM: "asm",
}


def inspect(
    model: options.Model,
    task: Annotated[
        str | None, typer.Option(metavar="DIGEST", help="only this task; its first digits do")
    ] = None,
    level: Annotated[PrintLevel | None, typer.Option("--print", help="show the text of a level")] = None,
    why: Annotated[
        bool,
        typer.Option("--why", help="why the schedule of --task is the one: rivals, by how much, the model"),
    ] = False,
    bisect: Annotated[
        bool, typer.Option("--bisect", help="find the pass, kernel or step that makes a result wrong")
    ] = False,
    target: options.Target = "native",
    threads: options.Threads = None,
    shape: options.Shapes = [],  # noqa: B006  (typer copies it)
    error_budget: options.ErrorBudget = None,
    database: options.Database = None,
    json: options.Json = False,
) -> None:
    """List the tasks of a model, and where each schedule would come from; or print one level of the compiler."""
    if bisect:
        if task is not None or level is not None or why:
            message = "--bisect checks every level of every task; leave out --task, --print and --why"
            raise typer.BadParameter(message)
        run_bisect(model, target, threads, shape, error_budget, database, json=json)
        return
    if why and (task is None or level is not None):
        message = "--why explains one task; give its --task DIGEST, and leave out --print"
        raise typer.BadParameter(message)
    with only_json():
        from compiler.pipeline import load_graph, lower
        from luthier.build import make_options
        from luthier.levels import inspect_tasks, select

        chosen = make_options(target, threads, parse_shapes(shape), error_budget, database, runs_here=False)
        graph = load_graph(model, chosen.shapes)
        tasks = inspect_tasks(lower(graph), chosen)
        shown = tasks if task is None else [select(tasks, task)]
        text = _level(level, shown, chosen) if level is not PrintLevel.GRAPH else _graph(graph)
        explanation = _explanation(shown[0], chosen) if why else None
    if json:
        put_json(
            {
                "model": model.stem,
                "target": chosen.target.name,
                "threads": chosen.threads,
                "tasks": [_task(t) for t in shown],
                "level": None if level is None else level.value,
                "text": text,
                "why": None if explanation is None else asdict(explanation),
            }
        )
    elif explanation is not None:
        put_text(explanation_text(explanation))
    else:
        put_text(text if text is not None else _table(shown))


def _explanation(choice: Choice, chosen: BuildOptions) -> Explanation:
    from luthier.explain import explain

    return explain(choice, chosen)


def _task(choice: Choice) -> dict[str, Any]:
    return {
        "workload": choice.workload.digest,
        "name": choice.lookup.name,
        "weight": choice.lookup.weight,
        "gflop": choice.workload.operations / 1e9,
        "lookup": choice.lookup.lookup,
    }


def _table(choices: list[Choice]) -> str:
    lines = [f"{'digest':<12}  {'times':>5}  {'GFLOP':>8}  {'lookup':<9}  name"]
    for choice in choices:
        lookup, gflop = choice.lookup, choice.workload.operations / 1e9
        lines.append(
            f"{lookup.workload[:12]}  {lookup.weight:>5}  {gflop:>8.3f}  {lookup.lookup:<9}  {lookup.name}"
        )
    return "\n".join(lines)


def _graph(graph: Any) -> str:
    from compiler.graph.printer import graph_text

    return graph_text(graph)


def _level(level: PrintLevel | None, tasks: list[Choice], chosen: BuildOptions) -> str | None:
    from luthier.levels import level_text

    match level:
        case PrintLevel.LOOP | PrintLevel.LLVM | PrintLevel.ASM:
            texts = [
                f"; {t.lookup.name}\n{level_text(t, _KERNEL_LEVELS[level], chosen).rstrip()}" for t in tasks
            ]
            return "\n\n".join(texts)
        case _:
            return None
