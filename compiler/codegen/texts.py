"""What the code generator makes of a nest as text, for people and tests: the phases one after the other."""

from __future__ import annotations

from compiler.codegen.llvm import emit_assembly
from compiler.codegen.nest import emit_nest
from compiler.loop.ir import LoopNest
from compiler.target import Target


def nest_ir(nest: LoopNest, target: Target) -> str:
    """The IR of all phases."""
    return "\n".join(module.ir for module in emit_nest(nest, target))


def nest_assembly(nest: LoopNest, target: Target) -> str:
    """Their assembly."""
    return "\n".join(emit_assembly(module.ir, target) for module in emit_nest(nest, target))
