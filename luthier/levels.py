"""The Tasks of a model and the text of each level of the compiler: what `luthier inspect` shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from compiler.codegen.llvm import emit_assembly
from compiler.errors import InputError
from compiler.loop.printer import print_nest
from compiler.pipeline import build_levels
from compiler.schedule.schedule import Schedule
from compiler.schedule.source import Lookup
from compiler.space.rules import build_space
from compiler.workload.ir import Workload
from compiler.workload.program import Program
from luthier.build import BuildOptions, open_log
from service.records.source import SqlScheduleSource

Level = Literal["graph", "loop", "llvm", "asm"]


@dataclass(frozen=True, slots=True)
class InspectedTask:
    """A Task, and the Schedule that compiling would use now."""

    workload: Workload
    name: str
    weight: int
    schedule: Schedule
    lookup: Lookup


def inspect_tasks(program: Program, options: BuildOptions) -> list[InspectedTask]:
    """The distinct Tasks in the order in which they first run; raises DatabaseError."""
    names: dict[str, str] = {}
    weights: dict[str, int] = {}
    workloads: dict[str, Workload] = {}
    for subgraph in program.subgraphs:
        digest = subgraph.workload.digest
        names.setdefault(digest, subgraph.name)
        workloads.setdefault(digest, subgraph.workload)
        weights[digest] = weights.get(digest, 0) + 1
    with open_log(options.database) as log:
        source = SqlScheduleSource(log, options.error_budget)
        answers = source.lookup(list(workloads.values()), options.target, options.threads)
    tasks = []
    for (digest, workload), found in zip(workloads.items(), answers, strict=True):
        schedule, lookup = (
            (found.schedule, found.lookup) if found else (_default(workload, options), "default")
        )
        tasks.append(InspectedTask(workload, names[digest], weights[digest], schedule, lookup))
    return tasks


def select(tasks: Sequence[InspectedTask], prefix: str) -> InspectedTask:
    """The one Task whose digest starts with `prefix`; raises InputError where there is none or more than one."""
    found = [task for task in tasks if task.workload.digest.startswith(prefix.lower())]
    if len(found) != 1:
        how = "no task has" if not found else f"{len(found)} tasks have"
        msg = f"{how} a digest that starts with {prefix!r}; `luthier inspect MODEL` lists the digests"
        raise InputError(msg)
    return found[0]


def level_text(task: InspectedTask, level: Literal["loop", "llvm", "asm"], options: BuildOptions) -> str:
    """A Task at one level, under the Schedule that compiling would use."""
    levels = build_levels(task.workload, task.schedule, options.target)
    match level:
        case "loop":
            return print_nest(levels.nest)
        case "llvm":
            return levels.ir
        case "asm":
            return emit_assembly(levels.ir, options.target)


def _default(workload: Workload, options: BuildOptions) -> Schedule:
    space = build_space(workload, options.target, options.threads)
    return space.schedule(space.default)
