"""Entry: how callers come into a phase, and which of its iterations each of them carries out.

What one caller does is emitted the same for every Target (compiler/codegen/nest.py). What surrounds it has a file per
way in: `team_entry` for the threads of a CPU, `grid_entry` for those of a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from compiler.codegen.emitter import Emitter
from compiler.codegen.indices import Indices
from compiler.loop.ir import Extent, If, Let, LoopNest, Stmt

Emit = Callable[[Stmt], None]


@dataclass(frozen=True, slots=True)
class Walker:
    """What the emission of statements offers to an Entry.

    Attributes:
        out: the function that is being written.
        indices: the names of loops.
        statement: emits a statement that one caller carries out alone.
        let: names an index; the second argument emits what stands inside.
        branch: tests an index; the second argument emits what stands on either side.
        extent: iterations: a number, or an SSA value where a bound depends on another loop.
    """

    out: Emitter
    indices: Indices
    statement: Emit
    let: Callable[[Let, Emit], None]
    branch: Callable[[If, Emit], None]
    extent: Callable[[Extent], int | str]


class Entry(Protocol):
    """One way into the phases of a kernel, for one Target."""

    attributes: str
    """Of every function of the module, in LLVM's words."""

    def own_buffers(self, nest: LoopNest) -> tuple[list[str], Mapping[str, str]]:
        """Definitions of shared buffers, and the pointer to each; raises CompileError where there is no such memory."""
        ...

    def head(self, symbol: str, params: Sequence[str], body: Stmt) -> str:
        """The head of a phase's function; raises CompileError where the Target cannot carry out its loops."""
        ...

    def root(self, walker: Walker, body: Stmt) -> None:
        """Emit the iterations of this caller."""
        ...
