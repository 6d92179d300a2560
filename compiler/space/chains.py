"""Elementary functions in what a stage computes: they decide how much of it is best under way at once."""

from __future__ import annotations

from compiler.scalar import Apply, walk
from compiler.workload.ir import Stage

LONG_CHAINS = frozenset({"exp", "log", "tanh", "erf", "sigmoid", "pow"})
"""Operations that are long sequences of instructions, each of which waits for the one before."""

CHAIN = 4
"""Registers for each sum while an elementary function is computed of it: one body for a window and what follows it
would keep all of them busy at once."""


def has_long_chain(stage: Stage) -> bool:
    """Whether the stage computes an elementary function."""
    return any(
        isinstance(e, Apply) and e.op in LONG_CHAINS for result in stage.results for e in walk(result.body)
    )
