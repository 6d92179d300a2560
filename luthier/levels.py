"""The text of a Task at each level of the compiler: what `luthier inspect` shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from compiler.choice import Choice, choose_schedules, with_usable
from compiler.codegen.texts import nest_assembly, nest_ir
from compiler.errors import InputError
from compiler.loop.printer import print_nest
from compiler.pipeline import build_nest
from compiler.workload.program import Program
from luthier.build import BuildOptions, open_lookups


def inspect_tasks(program: Program, options: BuildOptions) -> list[Choice]:
    """The distinct Tasks with the Schedule that compiling would use now; raises DatabaseError."""
    with open_lookups(options) as source:
        chosen = choose_schedules(program, options.target, options.threads, source).values()
        return [
            with_usable(choice, options.target, options.threads, source.error_budget) for choice in chosen
        ]


def select(choices: Sequence[Choice], prefix: str) -> Choice:
    """The one Task whose digest starts with `prefix`; raises InputError where there is none or more than one."""
    found = [choice for choice in choices if choice.workload.digest.startswith(prefix.lower())]
    if len(found) != 1:
        how = "no task has" if not found else f"{len(found)} tasks have"
        msg = f"{how} a digest that starts with {prefix!r}; `luthier inspect MODEL` lists the digests"
        raise InputError(msg)
    return found[0]


def level_text(choice: Choice, level: Literal["loop", "llvm", "asm"], options: BuildOptions) -> str:
    """A Task at one level, under its Schedule."""
    nest = build_nest(choice.workload, choice.found.schedule)
    if level == "loop":
        return print_nest(nest)
    return (nest_ir if level == "llvm" else nest_assembly)(nest, options.target)
