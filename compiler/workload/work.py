"""Work: about how long a run of a Workload takes, without a Schedule, to tell what is too little to share out.

    y[s0] = max(a[s0], 0)               3 nodes of 4 units, for each element, and for each byte of a and y
    y[s0] = sum(r0) a[s0, r0] * b[r0]   3 nodes of 1 unit, for each product: one instruction adds it
    y[s0] = a[4 * s0]                   one node of 16 units: vectors are picked from four lines; of 64 at most

A unit is about 5 ps where there are vectors of 16 lanes. A byte takes 1 from a core's own caches, and 8 where half of
what is read may be near another core; one of a constant 4 in a program of one core, and none else, for each core reads
its own. What is left out: how many lanes are used, and that constants may come from memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from compiler.index import Index
from compiler.scalar import Apply, Expr, Load, walk
from compiler.symbol import Size, as_size, product
from compiler.workload.ir import Operand, Stage, Workload

_PRODUCT, _OTHER, _APART = 1, 4, 64
"""Units of a node of a sum of products, of any other node, and of a load whose elements lie apart."""

_NEAR, _FAR, _CONSTANT = 1, 8, 4
"""Units of a byte of what is read or written, and of constants: in a network they come from the second cache."""
_LANES = 16
"""Of a sum that is read along its own axis."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a run takes, over the symbols of the Workload.

    Attributes:
        computed: units of its nodes.
        moved: bytes of each operand that is read, constants apart, and of each output.
        constant: bytes of constants that are read.
    """

    computed: Size
    moved: Mapping[str, Size] = field(default_factory=dict)
    constant: Size = 0

    @property
    def near(self) -> Size:
        """Units where one core has all of it in its caches."""
        return self._with(_NEAR, _CONSTANT)

    @property
    def far(self) -> Size:
        """Units where the cores of a team have a part each."""
        return self._with(_FAR, 0)

    def _with(self, moved: int, constant: int) -> Size:
        total = Index.of(self.computed) + Index.of(self.constant) * constant
        return as_size(sum((Index.of(count) * moved for count in self.moved.values()), total))


def work_of(workload: Workload) -> Work:
    """The Work of one run."""
    computed = sum((_work(stage) for stage in workload.stages), Index())
    read = {o: _read_bytes(workload, o) for o in workload.operands}
    moved = {o.name: as_size(count) for o, count in read.items() if not o.constant}
    moved |= {o.name: as_size(o.count * o.dtype.size_bytes) for o in workload.outputs}
    constant = sum((count for o, count in read.items() if o.constant), Index())
    return Work(as_size(computed), moved, as_size(constant))


def _read_bytes(workload: Workload, operand: Operand) -> Index:
    """Of an operand: of each element once, and no more than there are loads, where their number is known."""
    count, loaded = operand.count, Index()
    for stage in workload.stages:
        found = [n for r in stage.results for n in walk(r.body) if isinstance(n, Load)]
        loaded += _points(stage) * sum(n.buffer == operand.name for n in found)
    few = loaded.constant is not None and (count.constant is None or loaded.const < count.const)
    return (loaded if few else count) * operand.dtype.size_bytes


def _points(stage: Stage) -> Index:
    return product(a.extent for a in (*stage.axes, *stage.reduce_axes))


def _work(stage: Stage) -> Index:
    points = _points(stage)
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
