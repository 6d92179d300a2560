"""What makes a Graph valid; runs between passes.

names     every value is defined once, before it is read; axes of a Compute are distinct
shapes    a load has one index per dimension; extents are positive
indices   use only the axes of their Compute (and symbols), and stay inside the buffer where no Guard protects them
scalars   operations and reducers are known, with the right number of arguments
types     the body has the type of the Compute, and no operation mixes types
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import assert_never

from compiler.errors import CompileError
from compiler.graph.ir import Compute, Graph, Node, TensorType
from compiler.index import Index, LookedUp, Ranges
from compiler.scalar import Apply, Bound, Cast, Const, Dot, Expr, Guard, Load, Lookup, Pick, children, walk
from compiler.scalar_ops import OPS, REDUCERS
from compiler.scalar_type import check_reduced, expr_type

Bounds = tuple[Bound, ...]


def verify_graph(graph: Graph) -> None:
    """Raises CompileError naming the first node that breaks a rule."""
    GraphVerifier()(graph)


class GraphVerifier:
    """Verifies Graphs that are made of each other: a node that a pass left as it was is not looked at again."""

    def __init__(self) -> None:
        """Nothing is verified yet."""
        self._symbols = frozenset[str]()
        self._verified: dict[str, tuple[Compute, list[TensorType]]] = {}

    def __call__(self, graph: Graph) -> None:
        """Raises CompileError naming the first node that breaks a rule."""
        known = _sources(graph)
        symbols = frozenset(symbol.name for symbol in graph.symbols)
        before = self._verified if symbols == self._symbols else {}
        self._symbols, self._verified = symbols, {}
        for node in graph.nodes:
            if node.output in known:
                raise _error(node, f"defines {node.output!r}, which is defined already")
            reads = node.compute.reads
            for value in reads:
                if value not in known:
                    raise _error(node, f"reads {value!r} before it is defined")
            types = [known[value] for value in reads]
            compute, same = before.get(node.output, (None, types))
            if compute is not node.compute or same != types:
                _verify_compute(node, known, symbols)
            self._verified[node.output] = node.compute, types
            known[node.output] = node.compute.type
        for name in graph.outputs:
            if name not in known:
                msg = f"output {name!r} of the graph is defined by no node; define it"
                raise CompileError(msg)


def _sources(graph: Graph) -> dict[str, TensorType]:
    both = graph.inputs.keys() & graph.constants.keys()
    if both:
        msg = f"{sorted(both)[0]!r} is an input and a constant; rename one of them"
        raise CompileError(msg)
    return dict(Graph(graph.inputs, (), graph.constants, ()).types())


def _verify_compute(node: Node, known: Mapping[str, TensorType], symbols: frozenset[str]) -> None:
    compute = node.compute
    names = [a.name for a in (*compute.axes, *compute.reduce_axes)]
    if len(set(names)) != len(names) or symbols & set(names):
        raise _error(node, f"has axes that are not distinct: {names}")
    if (compute.reducer is None) != (not compute.reduce_axes):
        raise _error(node, "has reduction axes without a reducer, or a reducer without axes")
    if compute.reducer is not None and compute.reducer not in REDUCERS:
        raise _error(node, f"has the unknown reducer {compute.reducer!r}")
    for e in walk(compute.body):
        _verify_scalar(node, e, known, symbols | set(names))
    _verify_type(node, known)
    ranges = _ranges(compute)
    if ranges is None:
        return
    if any(extent < 1 for extent in ranges.values()):
        raise _error(node, f"has an empty axis: {ranges}")
    stray = stray_lookup(compute.body)
    if stray is not None:
        raise _error(node, f"uses {stray!r}, which no lookup around it defines, or two do")
    for load, bounds in guarded_loads(compute.body, ranges):
        _verify_load(node, load, bounds, known[load.buffer], ranges)


def _verify_type(node: Node, known: Mapping[str, TensorType]) -> None:
    try:
        found = expr_type(node.compute.body, lambda value: known[value].dtype)
        if node.compute.reducer is not None:
            check_reduced(node.compute.reducer, found)
    except ValueError as error:
        raise _error(node, f"is badly typed: {error}") from error
    if found is not node.compute.dtype:
        raise _error(node, f"has a body of type {found.value} and is of type {node.compute.dtype.value}")


def _verify_scalar(node: Node, expr: Expr, known: Mapping[str, TensorType], names: frozenset[str]) -> None:
    indices: tuple[Index, ...] = ()
    match expr:
        case Apply(op, args):
            if op not in OPS or OPS[op].arity != len(args):
                raise _error(node, f"applies {op!r} to {len(args)} arguments")
        case Load(buffer, indices):
            if len(indices) != len(known[buffer].shape):
                raise _error(node, f"reads {buffer!r} with {len(indices)} indices")
        case Guard(bounds, _, _):
            indices = tuple(bound.index for bound in bounds)
        case Pick(_, index):
            indices = (index,)
        case Const() | Cast() | Lookup():
            pass
        case Dot():
            raise _error(node, "uses an instruction, which only a schedule may choose")
        case _:
            assert_never(expr)
    foreign = frozenset[str]().union(*(index.names() for index in indices)) - names
    if foreign:
        raise _error(node, f"uses {sorted(foreign)[0]!r}, which is no axis of it")


def _verify_load(node: Node, load: Load, bounds: Bounds, kind: TensorType, ranges: Ranges) -> None:
    for index, extent in zip(load.indices, kind.shape, strict=True):
        if extent.constant is None:
            continue
        low, high = narrowed(index, bounds, ranges)
        if low >= 0 and high < extent.const:
            continue
        # Bounds on other expressions of the same axes may still protect it; that is not decided here.
        if not any(index.names() & b.index.names() and (index - b.index).terms for b in bounds):
            raise _error(node, f"reads {load.buffer!r} at {index} in {low}..{high} of {extent}")


def narrowed(index: Index, bounds: Bounds, ranges: Ranges) -> tuple[int, int]:
    """Smallest and largest value of an index where the bounds hold; bounds on other indices do not help."""
    low, high = index.bounds(ranges)
    for bound in bounds:
        shift = (index - bound.index).constant
        if shift is not None:
            low, high = max(low, bound.low + shift), min(high, bound.high - 1 + shift)
    return low, high


def guarded_loads(expr: Expr, ranges: Ranges, bounds: Bounds = ()) -> Iterator[tuple[Load, Bounds]]:
    """Every load, with the bounds that hold wherever it is evaluated."""
    match expr:
        case Load():
            yield expr, bounds
        case Guard(tests, inside, outside):
            yield from guarded_loads(inside, ranges, (*bounds, *tests))
            yield from guarded_loads(outside, ranges, (*bounds, *_negation(tests, bounds, ranges)))
        case _:
            for child in children(expr):
                yield from guarded_loads(child, ranges, bounds)


def stray_lookup(expr: Expr, defined: frozenset[LookedUp] = frozenset()) -> str | None:
    """A name that was looked up nowhere around its use, or by two lookups one in the other; None where all is well."""
    indices: tuple[Index, ...] = ()
    match expr:
        case Lookup(found, value, inside):
            if any(found.name == other.name for other in defined):
                return found.name
            return stray_lookup(value, defined) or stray_lookup(inside, defined | {found})
        case Load(_, indices):
            pass
        case Guard(bounds, _, _):
            indices = tuple(bound.index for bound in bounds)
        case Pick(_, index):
            indices = (index,)
        case _:
            pass
    stray = frozenset[LookedUp]().union(*(index.looked_up() for index in indices)) - defined
    if stray:
        return min(found.name for found in stray)
    return next((s for child in children(expr) if (s := stray_lookup(child, defined)) is not None), None)


def _negation(tests: Bounds, bounds: Bounds, ranges: Ranges) -> Bounds:
    """What holds where a single test fails that can fail on one side only; nothing is known otherwise."""
    if len(tests) != 1:
        return ()
    (test,) = tests
    low, high = narrowed(test.index, bounds, ranges)
    if test.low <= low:
        return (Bound(test.index, test.high, high + 1),)
    if test.high > high:
        return (Bound(test.index, low, test.low),)
    return ()


def _ranges(compute: Compute) -> dict[str, int] | None:
    """Extent of each axis, or None where one is symbolic."""
    axes = (*compute.axes, *compute.reduce_axes)
    if any(a.extent.constant is None for a in axes):
        return None
    return {a.name: a.extent.const for a in axes}


def _error(node: Node, problem: str) -> CompileError:
    return CompileError(f"node {node.name!r} (value {node.output!r}) {problem}; report this with the model")
