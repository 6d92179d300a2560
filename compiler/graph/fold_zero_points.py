"""Fold zero points: a product of whole numbers minus their zero points becomes a plain product and a correction.

    t[m, n] = sum k of (x[m, k] - zx) * (w[k, n] - zw)       zx: one number, or one per row; w, zw: constant

    w'[k, n] = w[k, n] - zw                                  computed now, in the narrowest type that holds it
    s[n]     = sum k of w'[k, n]                             computed now
    p[m, n]  = sum k of x[m, k] * w'[k, n]
    t[m, n]  = p[m, n] - zx * s[n]

Where x is padded, the padding of the plain product is zx, so that the correction stays the same for all elements; where
that is not known yet, x is copied with a border of it first.
Structure decides, not the operator that a node came from.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.dtype import DType
from compiler.graph.affine import identity_indices
from compiler.graph.ir import Compute, Graph, Node
from compiler.graph.padded_copy import padded_copy
from compiler.graph.rename import fresh_names
from compiler.index import Index
from compiler.scalar import Apply, Bound, Cast, Const, Expr, Guard, Load, apply
from compiler.symbol import Axis, axis

Array = npt.NDArray[Any]
_HALF = 128
_NARROW = (DType.I8, DType.U8, DType.I16, DType.I32)


@dataclass(frozen=True, slots=True)
class Centred:
    """A factor `load - zero`, in the type of the product; 0 outside of the bounds."""

    load: Load
    zero: Const | Load | None
    bounds: tuple[Bound, ...]


@dataclass(frozen=True, slots=True)
class FoldZeroPoints:
    """The constant sums and differences are left as values of the graph, for constant folding."""

    name: str = "fold-zero-points"

    def run(self, graph: Graph) -> Graph:
        """Every contraction by itself."""
        folding = _Folding(graph)
        nodes = [new for node in graph.nodes for new in folding.folded(node)]
        return graph.with_nodes(tuple(nodes), folding.constants) if folding.changed else graph


def centred(expr: Expr) -> Centred | None:
    """The factor, where the expression is one."""
    match expr:
        case Guard(bounds, inside, Const(0)):
            found = centred(inside)
            return None if found is None or found.bounds else replace(found, bounds=bounds)
        case Cast(Load() as load, DType.I32):
            return Centred(load, None, ())
        case Cast(Guard(bounds, Load() as load, Const(0)), DType.I32):
            return Centred(load, None, bounds)
        case Apply("sub", (Cast(Load() as load, DType.I32), zero)):
            return _with_zero(load, zero)
        case _:
            return None


def _with_zero(load: Load, zero: Expr) -> Centred | None:
    match zero:
        case Const(_, DType.I32):
            return Centred(load, zero, ())
        case Cast(Const(value, _), DType.I32):
            return Centred(load, Const(value, DType.I32), ())
        case Cast(Load() as found, DType.I32):
            return Centred(load, found, ())
        case _:
            return None


class _Folding:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.constants: dict[str, Array] = dict(graph.constants)
        self.changed = False

    def folded(self, node: Node) -> Iterator[Node]:
        """The node, or what takes its place."""
        compute = node.compute
        match compute.body:
            case Apply("mul", (x, w)) if compute.reducer == "sum" and compute.dtype is DType.I32:
                for first, second in ((x, w), (w, x)):
                    data, weights = centred(first), centred(second)
                    if data is None or weights is None or not self._applies(node, data, weights):
                        continue
                    if (padded := self._padded(node, data)) is not None:
                        kind = self._graph.types()[data.load.buffer].dtype
                        copies, data = padded
                        new = (*copies, *self._plain(node, kind, data, weights))
                        self.changed |= new != (node,)
                        yield from new
                        return
        yield node

    def _applies(self, node: Node, data: Centred, weights: Centred) -> bool:
        if weights.load.buffer not in self.constants or data.load.buffer in self.constants or weights.bounds:
            return False
        zero = self._value(weights.zero)
        if zero is None:
            return False
        reduced = {a.name for a in node.compute.reduce_axes}
        moved = data.zero.indices if isinstance(data.zero, Load) else ()
        plain = all(index.name is not None or index.constant == 0 for index in weights.load.indices)
        return plain and not any(index.names() & reduced for index in moved)

    def _value(self, zero: Const | Load | None) -> Array | None:
        """The zero point of the weights, None where it is not known."""
        if zero is None:
            return np.zeros((), np.int32)
        if isinstance(zero, Const):
            return np.asarray(zero.value, np.int32)
        return self.constants.get(zero.buffer)

    def _literal(self, zero: Const | Load) -> int | None:
        if isinstance(zero, Const):
            return int(zero.value)
        array = self.constants.get(zero.buffer)
        return int(array.reshape(-1)[0]) if array is not None and array.size == 1 else None

    def _padded(self, node: Node, data: Centred) -> tuple[tuple[Node, ...], Centred] | None:
        """A copy of the data with a border of its zero point, where it needs one, and the factor that reads it.

        None where the zero point, which is known at run time alone, is not one number of the data's own type.
        """
        types, zero = self._graph.types(), data.zero
        if not data.bounds or zero is None or self._literal(zero) is not None:
            return (), data
        read = types[data.load.buffer]
        if not isinstance(zero, Load) or types[zero.buffer].dtype is not read.dtype:
            return None
        if any(index.names() for index in zero.indices):
            return None
        name = self._fresh(f"{node.output}.padded")
        found = padded_copy(name, data.load, data.bounds, zero, read, node.compute.ranges)
        if found is None:
            return None
        return (Node(node.name, name, found[0]),), replace(data, load=found[1], bounds=())

    def _plain(self, node: Node, kind: DType, data: Centred, weights: Centred) -> Iterator[Node]:
        compute = node.compute
        right = self._shifted(weights)
        literal = 0 if data.zero is None else self._literal(data.zero)
        x: Expr = data.load
        if data.bounds:
            x = Guard(data.bounds, x, Const(literal or 0, kind))
        lift = _HALF if kind is DType.I8 else 0
        wide: Expr = Cast(x, DType.I32)
        lifted = apply("add", wide, Const(lift, DType.I32)) if lift else wide
        product = replace(compute, body=apply("mul", lifted, Cast(right, DType.I32)))
        if literal is not None and literal + lift == 0:
            yield replace(node, compute=product)
            return
        plain = self._fresh(f"{node.output}.product")
        yield Node(node.name, plain, product)
        sums, total = self._sums(node, right)
        yield total
        factor = Const(literal + lift, DType.I32) if literal is not None else _wide(data.zero, lift)
        value = Load(plain, identity_indices(compute))
        corrected = apply("sub", value, apply("mul", factor, sums))
        yield Node(node.name, node.output, Compute(compute.axes, (), None, corrected, DType.I32))

    def _shifted(self, weights: Centred) -> Load:
        """The weights without their zero point, as a new constant in the narrowest type."""
        load, zero = weights.load, self._value(weights.zero)
        array = self.constants[load.buffer]
        if zero is None or not zero.any():
            shifted = array.astype(np.int64)
        else:
            shifted = array.astype(np.int64) - self._aligned(zero, weights).astype(np.int64)
        kind = next(d for d in _NARROW if d.holds(float(shifted.min()), float(shifted.max())))
        if kind is DType.from_numpy(array.dtype) and zero is not None and not zero.any():
            return load
        name = self._fresh(f"{load.buffer}.centred")
        value = shifted.astype(kind.numpy)
        value.setflags(write=False)
        self.constants[name] = value
        return Load(name, load.indices)

    def _aligned(self, zero: Array, weights: Centred) -> Array:
        """The zero points with one dimension per dimension of the weights, of extent 1 where they are all the same."""
        if not isinstance(weights.zero, Load) or zero.size == 1:
            return zero.reshape(-1)[:1].reshape(())
        shape = [1] * len(weights.load.indices)
        for index, size in zip(weights.zero.indices, zero.shape, strict=True):
            if size > 1:
                shape[weights.load.indices.index(index)] = size
        return zero.reshape(shape)

    def _sums(self, node: Node, right: Load) -> tuple[Expr, Node]:
        """The sum of the weights that an element of the output is made of; weights outside of no axis count often."""
        compute = node.compute
        used = {name for index in right.indices for name in index.names()}
        own = tuple(a for a in compute.axes if a.name in used)
        inner = tuple(a for a in compute.reduce_axes if a.name in used)
        repeats = 1
        for a in compute.reduce_axes:
            repeats *= 1 if a.name in used else a.size
        name = self._fresh(f"{node.output}.sums")
        axes, body = own or (axis("unit", 1),), Cast(right, DType.I32)
        summed = apply("mul", body, Const(repeats, DType.I32)) if repeats > 1 else body
        total = Compute(axes, inner, "sum" if inner else None, summed, DType.I32)
        return Load(name, _places(own)), Node(node.name, name, total)

    def _fresh(self, base: str) -> str:
        taken = {*self.constants, *(n.output for n in self._graph.nodes)}
        return next(name for name in fresh_names(self._graph, base) if name not in taken)


def _places(axes: tuple[Axis, ...]) -> tuple[Index, ...]:
    return tuple(Index.of(a.name) for a in axes) or (Index.of(0),)


def _wide(zero: Const | Load | None, lift: int) -> Expr:
    assert isinstance(zero, Load)
    wide = Cast(zero, DType.I32)
    return apply("add", wide, Const(lift, DType.I32)) if lift else wide
