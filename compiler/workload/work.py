"""Work: about how long a run of a Workload takes, without a Schedule, to tell what is too little to share out.

    y[s0] = max(a[s0], 0)               3 nodes of 4 units, for each element, and 8 for each byte of a and y
    y[s0] = sum(r0) a[s0, r0] * b[r0]   3 nodes of 1 unit, for each product: one instruction adds it
    y[s0] = a[4 * s0]                   one node of 16 units: vectors are picked from four lines; of 64 at most

A unit is about 5 ps where there are vectors of 16 lanes. What is left out: how many lanes are used, and how far
away constants are.
"""

from __future__ import annotations

from compiler.index import Index
from compiler.scalar import Apply, Expr, Load, walk
from compiler.symbol import product
from compiler.workload.ir import Stage, Workload

_PRODUCT, _OTHER, _APART = 1, 4, 64
"""Units of a node of a sum of products, of any other node, and of a load whose elements lie apart."""

_BYTE = 8
"""Units of a byte of what is read or written, constants apart: half of it may be near another core."""
_LANES = 16
"""Of a sum that is read along its own axis."""


def work_of(workload: Workload) -> Index:
    """Units of one run, over the Workload's symbols."""
    moved = [o for o in (*workload.operands, *workload.outputs) if not o.constant]
    total = sum((o.count * (o.dtype.size_bytes * _BYTE) for o in moved), Index())
    return sum((_work(stage) for stage in workload.stages), total)


def _work(stage: Stage) -> Index:
    points = product(a.extent for a in (*stage.axes, *stage.reduce_axes))
    nodes = [node for result in stage.results for node in walk(result.body)]
    if stage.reducer == "sum" and isinstance(stage.body, Apply) and stage.body.op == "mul":
        return points * (_PRODUCT * len(nodes))
    inner = [stage.axes[-1].name]
    inner += [a.name for a in stage.reduce_axes[-1:] if _at_least(a.extent, _LANES)]
    return points * sum(_units(node, inner) for node in nodes)


def _at_least(extent: Index, count: int) -> bool:
    return extent.constant is None or extent.const >= count


def _units(node: Expr, inner: list[str]) -> int:
    """Of a node; of a load as many as the lines that a vector of its elements is picked from."""
    if not isinstance(node, Load):
        return _OTHER
    return min(_APART, _OTHER * min(_step(node, name) for name in inner))


def _step(load: Load, axis: str) -> int:
    """How far apart, in elements, what follows each other along an axis lies; a vector and more where it is unknown."""
    *outer, last = load.indices or (Index(),)
    step = dict(last.terms).get(axis, 0)
    others = (last - Index.of(axis) * step, *outer)
    return _LANES if any(axis in index.names() for index in others) else max(1, abs(step))
