"""How much code a nest becomes."""

from __future__ import annotations

from compiler.loop.ir import For, LoopKind, LoopNest, Stmt, sub_statements

LOOP_LIMIT = 64
"""Loops that a phase may have after unrolling: LLVM's value numbering ends the process at about 90 that count alike."""


def most_loops(nest: LoopNest) -> int:
    """Serial loops of the phase that has most of them, copies by unrolled loops counted."""
    return max(_loops(phase) for phase in nest.phases)


def _loops(stmt: Stmt) -> int:
    inner = sum(map(_loops, sub_statements(stmt)))
    if isinstance(stmt, For) and stmt.kind is LoopKind.UNROLLED:
        return inner * stmt.extent.limit
    return inner + int(isinstance(stmt, For) and stmt.kind is LoopKind.SERIAL)
