"""The compiler on one page: ONNX → Graph → Program → LoopNests → objects → Module.

    load_graph        compiler.frontend     read, check, decompose into index expressions
    lower             compiler.graph        named passes; then layouts, partition into Subgraphs
    build_kernel      compiler.schedule     replay the Schedule, lower to a LoopNest, simplify, peel
                      compiler.codegen      LLVM IR, object code
    compile_program   compiler.space        look every Workload up; a miss gets the analytic default
                      compiler.runtime      memory plan, packed constants, team: a Module
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from compiler import debug
from compiler.codegen.kernel import Kernel, Param
from compiler.codegen.llvm import emit_assembly, emit_object
from compiler.codegen.nest import emit_nest
from compiler.loop.ir import LoopNest
from compiler.loop.peel import peel
from compiler.loop.printer import print_nest
from compiler.loop.simplify import simplify
from compiler.schedule.lower import lower as lower_state
from compiler.schedule.primitives import replay
from compiler.schedule.schedule import Schedule
from compiler.target import Target
from compiler.workload.ir import Workload


@dataclass(frozen=True)
class Levels:
    """Every level of one kernel, for `luthier inspect`, dumps and golden tests."""

    nest: LoopNest
    ir: str


def kernel_symbol(workload: Workload, schedule: Schedule) -> str:
    """The name of a kernel's function: what it computes, and how."""
    return f"k_{workload.digest[:16]}_{schedule.digest[:8]}"


def build_nest(workload: Workload, schedule: Schedule) -> LoopNest:
    """The LoopNest of a Workload under a Schedule; raises ScheduleError where a Step is not legal."""
    nest = lower_state(replay(workload, schedule), kernel_symbol(workload, schedule))
    return peel(simplify(nest))


def build_levels(workload: Workload, schedule: Schedule, target: Target) -> Levels:
    """The LoopNest and the LLVM IR."""
    nest = build_nest(workload, schedule)
    return Levels(nest, emit_nest(nest, target))


def build_kernel(workload: Workload, schedule: Schedule, target: Target) -> Kernel:
    """Machine code of a Workload under a Schedule; raises ScheduleError or CompileError."""
    levels = build_levels(workload, schedule, target)
    _dump(levels, target)
    params = tuple(
        Param(b.name, b.role or "input", b.shape, b.dtype, b.packing) for b in levels.nest.params
    )
    code = emit_object(levels.ir, target)
    return Kernel(levels.nest.name, code, params, levels.nest.parallel_extent)


def _dump(levels: Levels, target: Target) -> None:
    folder = debug.dump_folder()
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    texts: Mapping[str, str] = {
        "loop": print_nest(levels.nest),
        "ll": levels.ir,
        "s": emit_assembly(levels.ir, target),
    }
    for suffix, text in texts.items():
        (folder / f"{levels.nest.name}.{suffix}").write_text(text)
