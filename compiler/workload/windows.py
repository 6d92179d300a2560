"""Windows: an operand of which a Subgraph reads one contiguous part becomes that part.

    y[s0] = x[19, 0, s0] + c[s0]      x: [32, 1, 1024]
    →  y[s0] = x[0, 0, s0] + c[s0]    x: [1, 1, 1024], bound to its value from element 19 * 1024 on

So the steps of a recurrent operator, and the parts of a batch, are one Workload: tuned once, with one kernel and one
packing of the weights that they share.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.index import Index
from compiler.scalar import Expr, Load, rewrite
from compiler.workload.canonical import canonicalise
from compiler.workload.ir import Operand, Workload, stage_loads
from compiler.workload.program import ALIGNMENT, Program, Subgraph


def cut_windows(program: Program) -> Program:
    """Cut operands that are intermediate values, where that makes Workloads equal; static Programs only.

    Callers' arrays and constants stay whole: the first may lie anywhere, the second are packed as a kernel wants them.
    """
    whole = {*program.inputs, *program.outputs, *program.constants}
    cuts = [_cut(subgraph, whole) for subgraph in program.subgraphs]
    merged: dict[str, set[str]] = {}
    for old, new in zip(program.subgraphs, cuts, strict=True):
        merged.setdefault(new.workload.digest, set()).add(old.workload.digest)
    chosen = (
        new if len(merged[new.workload.digest]) > 1 else old
        for old, new in zip(program.subgraphs, cuts, strict=True)
    )
    return replace(program, subgraphs=tuple(chosen))


def _cut(subgraph: Subgraph, whole: set[str]) -> Subgraph:
    workload, starts = subgraph.workload, dict[str, int]()
    for operand in subgraph.workload.operands:
        if subgraph.bindings[operand.name] not in whole:
            workload, start = _window(workload, operand)
            if start is not None:
                starts[operand.name] = start
    if not starts:
        return subgraph
    canonical = canonicalise(workload)
    temporaries = {t.name for t in canonical.workload.temporaries}
    names = {new: old for new, old in canonical.names.items() if new not in temporaries}
    return replace(
        subgraph,
        workload=canonical.workload,
        bindings={new: subgraph.bindings[old] for new, old in names.items()},
        starts={new: starts[old] for new, old in names.items() if old in starts},
    )


def _window(workload: Workload, operand: Operand) -> tuple[Workload, int | None]:
    """The Workload with the operand cut, and where the window starts, in elements; None where it needs all of it."""
    sizes, strides = list(operand.sizes), operand.strides
    first = [0] * len(sizes)
    for dim in range(len(sizes)):
        low, high = _read(workload, operand, dim)
        if low < 0 or high >= sizes[dim]:
            break  # a guard protects what lies outside
        first[dim], sizes[dim] = low, high + 1 - low
        if sizes[dim] > 1:
            break  # parts of several rows are not contiguous
    start = sum(at * stride for at, stride in zip(first, strides, strict=True))
    if tuple(sizes) == operand.sizes or start * operand.dtype.size_bytes % ALIGNMENT:
        return workload, None

    def rule(e: Expr) -> Expr | None:
        if not isinstance(e, Load) or e.buffer != operand.name:
            return None
        return Load(e.buffer, tuple(index - at for index, at in zip(e.indices, first, strict=True)))

    cut = replace(operand, shape=tuple(map(Index.of, sizes)))
    return (
        replace(
            workload,
            operands=tuple(cut if o is operand else o for o in workload.operands),
            stages=tuple(stage.rewritten(lambda body: rewrite(body, rule)) for stage in workload.stages),
        ),
        start,
    )


def _read(workload: Workload, operand: Operand, dim: int) -> tuple[int, int]:
    """Least and largest index along a dimension; guards are not looked at."""
    bounds = [
        load.indices[dim].bounds(stage.ranges)
        for stage in workload.stages
        for load in stage_loads(stage)
        if load.buffer == operand.name
    ]
    return min(low for low, _ in bounds), max(high for _, high in bounds)
