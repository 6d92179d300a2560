"""Work: what a model must do at least, counted on its Graph, and the least time that it takes under given Ceilings.

multiply_adds   terms of sums of products; a term that a guard replaces by padding is not counted
instructions    arithmetic on single elements, a multiply-add being one. Each distinct expression counts once per
                value of the axes that it depends on, however often the Graph repeats it. `exp`, `erf` and the like
                count what compiler/codegen/math.py emits for them on the Target; loads, stores, conversions and tests
                of a guard count nothing
multiplications products among them, and the multiply-adds of elementary functions
divisions       quotients and square roots among them
read            bytes of each input and constant once, or less where only a part of it is read
written         bytes of each output

bound = max(2 (multiply_adds + multiplications) / multiply_add rate, instructions / (lanes * issue rate),
            divisions / (lanes * divide rate), time to read and write so much in the level that holds it)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from compiler.codegen.arithmetic import Arithmetic
from compiler.codegen.emitter import Emitter
from compiler.codegen.math import FUNCTIONS, RANGED, is_rounded
from compiler.graph.ir import Compute, ComputeKind, Graph, Node
from compiler.graph.scalar_rules import UNKNOWN, Interval, interval
from compiler.index import Index
from compiler.scalar import (
    Apply,
    Bound,
    Expr,
    Guard,
    Load,
    Pick,
    expr_text,
    lookup_names,
    rewrite,
    substitute,
    walk,
)
from compiler.scalar_ops import OPS
from compiler.target import Target
from luthier.bench.ceilings import Ceilings

_DIVIDER = ("div", "sqrt")
_KNOWN = ("at_most",)
"""Operations that only say what is known."""
_BESIDE_OTHERS = ("bitcast", "select")
"""Words of what takes no instruction of its own: a choice is made by what compares, or by a mask."""


@dataclass(frozen=True, slots=True)
class Work:
    """Counts of the module's docstring, in single elements; `contraction` where sums of products dominate."""

    multiply_adds: int
    instructions: int
    multiplications: int
    divisions: int
    read: int
    written: int

    @property
    def bytes(self) -> int:
        """All that moves."""
        return self.read + self.written

    @property
    def operations(self) -> int:
        """Arithmetic operations: a multiply-add is two."""
        return self.instructions + self.multiply_adds

    def times_s(self, ceilings: Ceilings) -> dict[str, float]:
        """Least seconds by what limits them."""
        rates, level = ceilings.rates, ceilings.level(self.bytes)
        return {
            # Products take the units of multiply-adds, a slot each.
            "multiply_add": 2 * (self.multiply_adds + self.multiplications) / rates["multiply_add"],
            "issue": self.instructions / ceilings.lanes / rates["issue"],
            "divide": self.divisions / ceilings.lanes / rates["divide"],
            level: ceilings.moved_s(self.read, self.written),
        }

    def bound(self, ceilings: Ceilings) -> tuple[float, str]:
        """The least seconds, and what limits them."""
        times = self.times_s(ceilings)
        limit = max(times, key=lambda name: times[name])
        return times[limit], limit


def count_work(graph: Graph, target: Target) -> Work:
    """Count an optimised Graph with static extents; elementary functions as the Target computes them."""
    graph = _through_movements(graph)
    counts = _Counts(target)
    for node in graph.nodes:
        counts.add_node(node)
    sizes = {name: math.prod(kind.sizes) * kind.dtype.size_bytes for name, kind in graph.types().items()}
    read = {name: bytes_ for name, bytes_ in _bytes_read(graph, sizes).items() if _outside(graph, name)}
    written = sum(sizes[name] for name in graph.outputs)
    return Work(
        counts.multiply_adds,
        counts.instructions,
        counts.multiplications,
        counts.divisions,
        sum(read.values()),
        written,
    )


def _through_movements(graph: Graph) -> Graph:
    """The graph whose computations read what movements read: padding and spreading add no terms, copies nothing."""
    moved = {n.output: n.compute for n in graph.nodes if n.compute.kind is ComputeKind.MOVEMENT}
    nodes = []
    for node in graph.nodes:
        if node.output in graph.outputs or node.output not in moved:
            body = _expanded(node.compute.body, moved)
            nodes.append(replace(node, compute=replace(node.compute, body=body)))
    return graph.with_nodes(tuple(nodes))


def _expanded(body: Expr, moved: Mapping[str, Compute]) -> Expr:
    def rule(e: Expr) -> Expr | None:
        if not isinstance(e, Load) or e.buffer not in moved:
            return None
        source = moved[e.buffer]
        places = {axis.name: index for axis, index in zip(source.axes, e.indices, strict=True)}
        return _expanded(substitute(source.body, places), moved)

    return rewrite(body, rule)


class _Counts:
    def __init__(self, target: Target) -> None:
        self._target = target
        self.multiply_adds = self.instructions = self.multiplications = self.divisions = 0
        self._seen: set[tuple[str, int]] = set()

    def add_node(self, node: Node) -> None:
        compute = node.compute
        bounds = [b for e in walk(compute.body) if isinstance(e, Guard) for b in e.bounds]
        ranges = compute.ranges
        terms = points(set(ranges), bounds, ranges)
        fused = compute.reducer == "sum" and _product(compute.body) is not None
        product = _product(compute.body) if fused else None
        if compute.reducer is not None:
            self.instructions += terms
            self.multiply_adds += terms if fused else 0
        for expr in walk(compute.body):
            if isinstance(expr, Apply) and expr is not product:
                self._add(expr, bounds, ranges)

    def _add(self, expr: Apply, bounds: Iterable[Bound], ranges: Mapping[str, int]) -> None:
        names = _names(expr)
        count = points(names, [b for b in bounds if b.index.names() <= names], ranges)
        key = (expr_text(_anonymous(expr, ranges)), count)
        if key in self._seen:
            return
        self._seen.add(key)
        known, rounded = interval(expr.args[0], {}), is_rounded(expr.args[0])
        lines = emitted(expr.op, self._target, known, rounded=rounded)
        self.instructions += count * instructions_of(expr.op, lines)
        self.multiplications += count * multiplications_of(expr.op, lines)
        self.divisions += count * divisions_of(expr.op, lines)


def _product(body: Expr) -> Apply | None:
    """The multiplication that a sum's addition takes in, where the body is one (perhaps guarded)."""
    inner = body.inside if isinstance(body, Guard) else body
    return inner if isinstance(inner, Apply) and inner.op == "mul" else None


def points(names: set[str], bounds: Iterable[Bound], ranges: Mapping[str, int]) -> int:
    """How many values of the named axes satisfy all bounds; those of what is looked up are taken to hold."""
    groups: list[tuple[set[str], list[Bound]]] = []
    for bound in (b for b in dict.fromkeys(bounds) if not b.index.looked_up()):
        joined, together = set(bound.index.names()), [bound]
        apart = []
        for group, members in groups:
            if group & joined:
                joined, together = joined | group, together + members
            else:
                apart.append((group, members))
        groups = [*apart, (joined, together)]
    count = math.prod(ranges[name] for name in names - {n for group, _ in groups for n in group})
    for group, members in groups:
        count *= _satisfying(sorted(group), members, ranges)
    return count


def _satisfying(names: list[str], bounds: list[Bound], ranges: Mapping[str, int]) -> int:
    grids = np.meshgrid(*(np.arange(ranges[n]) for n in names), indexing="ij", sparse=True)
    values = dict(zip(names, grids, strict=True))
    held = np.ones([ranges[n] for n in names], bool)
    for bound in bounds:
        index = bound.index.evaluate(values)
        held &= (index >= bound.low) & (index < bound.high)
    return int(held.sum())


@cache
def emitted(op: str, target: Target, known: Interval = UNKNOWN, *, rounded: bool = False) -> tuple[str, ...]:
    """The instructions of an elementary function for one of the Target's vectors; none for other operations.

    `known`, `rounded`: of an argument, for functions that have shorter forms.
    """
    if op not in FUNCTIONS:
        return ()
    out = Emitter()
    arguments = [f"%x{i}" for i in range(OPS[op].arity)]
    lanes = Arithmetic(out, target).lanes(target.lanes(4))
    if op in RANGED:
        RANGED[op](lanes, *arguments, known, rounded=rounded)
    else:
        FUNCTIONS[op](lanes, *arguments)
    found = [line for line in out.lines if not any(f"= {word} " in line for word in _BESIDE_OTHERS)]
    # What is emitted twice is computed once.
    return tuple({line.split(" = ", 1)[1]: line for line in found}.values())


def instructions_of(op: str, lines: Sequence[str]) -> int:
    """Vector instructions of an operation of OPS; `lines`: what is emitted for it."""
    return 0 if op in _KNOWN else len(lines) or 1


def multiplications_of(op: str, lines: Sequence[str]) -> int:
    """Products and multiply-adds of an operation of OPS; `lines`: what is emitted for it."""
    return int(op == "mul") + sum("= fmul " in line or "@llvm.fma." in line for line in lines)


def divisions_of(op: str, lines: Sequence[str]) -> int:
    """Divisions and square roots of an operation of OPS; `lines`: what is emitted for it."""
    return int(op in _DIVIDER) + sum("= fdiv " in line or "@llvm.sqrt." in line for line in lines)


def _names(expr: Expr) -> set[str]:
    found: set[str] = set()
    for e in walk(expr):
        indices: tuple[Index, ...] = ()
        if isinstance(e, Load):
            indices = e.indices
        elif isinstance(e, Pick):
            indices = (e.index,)
        elif isinstance(e, Guard):
            indices = tuple(b.index for b in e.bounds)
        found.update(*(index.names() for index in indices))
    return found


def _anonymous(expr: Expr, ranges: Mapping[str, int]) -> Expr:
    """The expression with its axes named by the order in which they occur, those of one element left out."""
    expr = substitute(expr, {name: Index.of(0) for name, size in ranges.items() if size == 1})
    order: dict[str, Index] = {}
    for e in walk(expr):
        if isinstance(e, Load):
            for index in e.indices:
                for name in sorted(index.names()):
                    order.setdefault(name, Index.of(f"n{len(order)}"))
    return substitute(expr, order)


def _bytes_read(graph: Graph, sizes: Mapping[str, int]) -> dict[str, int]:
    types, read = graph.types(), dict.fromkeys(sizes, 0)
    for node in graph.nodes:
        ranges, looked_up = node.compute.ranges, lookup_names(node.compute.body)
        for load in (e for e in walk(node.compute.body) if isinstance(e, Load)):
            names = {name for index in load.indices for name in index.names()}
            names |= {n for i in load.indices for f in i.looked_up() for n in looked_up[f.name]}
            bytes_ = math.prod(ranges[n] for n in names) * types[load.buffer].dtype.size_bytes
            read[load.buffer] = min(sizes[load.buffer], max(read[load.buffer], bytes_))
    return read


def _outside(graph: Graph, name: str) -> bool:
    return name in graph.inputs or name in graph.constants
