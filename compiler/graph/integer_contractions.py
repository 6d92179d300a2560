"""Integer contractions: products of dequantised numbers become products of the whole numbers, scaled once.

    xd[m, k] = f32(x[m, k] - zx) * sx        wd[k, n] = f32(w[k, n] - zw) * sw[n]        x, w: 8 bits; w constant
    y[m, n]  = sum k of xd[m, k] * wd[k, n]

    →  t[m, n] = sum k of (x[m, k] - zx) * (w[k, n] - zw)                                in i32, exact
       y[m, n] = f32(t[m, n]) * (sx * sw[n])

The sum is exact and the scale is applied once, so the error is smaller than before. What was dequantised is found by
its form, not by the operator that made it; dead code elimination takes it away where nothing else reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from compiler.dtype import DType
from compiler.graph.affine import identity_indices
from compiler.graph.ir import Compute, Graph, Node, TensorType
from compiler.graph.rename import fresh_names
from compiler.index import Index
from compiler.scalar import Apply, Cast, Const, Expr, Guard, Load, apply, loads, substitute

_BYTES = (DType.U8, DType.I8)
_LARGEST_PRODUCT = 255 * 255
"""Of two bytes, zero points taken off."""


@dataclass(frozen=True, slots=True)
class IntegerContractions:
    """Runs before constants are folded, which would dequantise the weights."""

    name: str = "integer-contractions"

    def run(self, graph: Graph) -> Graph:
        """Every contraction by itself."""
        rewriting = _Rewriting(graph)
        nodes = [new for node in graph.nodes for new in rewriting.rewritten(node)]
        return graph.with_nodes(tuple(nodes)) if rewriting.changed else graph


@dataclass(frozen=True, slots=True)
class _Dequantised:
    """A factor of a product: its whole number and its scale, over the axes of the contraction."""

    whole: Expr
    scale: Expr
    source: str


class _Rewriting:
    def __init__(self, graph: Graph) -> None:
        self._graph, self._types = graph, graph.types()
        self._producers: Mapping[str, Node] = graph.producers()
        self._taken: set[str] = set()
        self.changed = False

    def rewritten(self, node: Node) -> Iterator[Node]:
        """The node, or what takes its place."""
        factors = self._factors(node.compute)
        if factors is None:
            yield node
            return
        self.changed = True
        compute, (x, w) = node.compute, factors
        total, scale = self._fresh(f"{node.output}.sum"), self._fresh(f"{node.output}.scale")
        product = replace(compute, body=apply("mul", x.whole, w.whole), dtype=DType.I32)
        yield Node(node.name, total, product)
        both = apply("mul", x.scale, w.scale)
        names = {n for load in loads(both) for index in load.indices for n in index.names()}
        own = tuple(a for a in compute.axes if a.name in names)
        yield Node(node.name, scale, Compute(own, (), None, both))
        value = Cast(Load(total, identity_indices(compute)), DType.F32)
        scaled = apply("mul", value, Load(scale, tuple(Index.of(a.name) for a in own)))
        yield replace(node, compute=Compute(compute.axes, (), None, scaled))

    def _factors(self, compute: Compute) -> tuple[_Dequantised, _Dequantised] | None:
        if compute.reducer != "sum" or compute.dtype is not DType.F32 or not _is_small(compute):
            return None
        match compute.body:
            case Apply("mul", (first, second)):
                x, w = self._dequantised(first, compute), self._dequantised(second, compute)
            case _:
                return None
        if x is None or w is None or not {x.source, w.source} & self._graph.constants.keys():
            return None
        return x, w

    def _dequantised(self, factor: Expr, compute: Compute) -> _Dequantised | None:
        match factor:
            case Load():
                return self._through(factor, compute)
            case Guard(bounds, Load() as load, Const(value)) if value == 0:
                found = self._through(load, compute)
                if found is None:
                    return None
                return replace(found, whole=Guard(bounds, found.whole, Const(0, DType.I32)))
            case _:
                return None

    def _through(self, load: Load, compute: Compute) -> _Dequantised | None:
        """The factor behind the map that dequantised it."""
        producer = self._producers.get(load.buffer)
        parts = None if producer is None else dequantisation(producer.compute, self._types)
        if producer is None or parts is None:
            return None
        whole, scale, source = parts
        axes = {a.name: i for a, i in zip(producer.compute.axes, load.indices, strict=True)}
        moved = substitute(scale, axes)
        spatial = {a.name for a in compute.axes}
        plain = all(i.constant == 0 or i.name in spatial for one in loads(moved) for i in one.indices)
        return _Dequantised(substitute(whole, axes), moved, source) if plain else None

    def _fresh(self, base: str) -> str:
        name = next(n for n in fresh_names(self._graph, base) if n not in self._taken)
        self._taken.add(name)
        return name


def dequantisation(compute: Compute, types: Mapping[str, TensorType]) -> tuple[Expr, Expr, str] | None:
    """Whole number, scale and buffer of a map `f32(q - zero) * scale` over bytes; None where it is anything else."""
    if compute.reducer is not None:
        return None
    match compute.body:
        case Apply("mul", (Cast(whole, DType.F32), scale)) | Apply("mul", (scale, Cast(whole, DType.F32))):
            pass
        case _:
            return None
    match whole:
        case Cast(Load() as q, DType.I32) | Apply("sub", (Cast(Load() as q, DType.I32), Cast(Load(), _))):
            own = q.indices == identity_indices(compute) and types[q.buffer].dtype in _BYTES
            return (whole, scale, q.buffer) if own and isinstance(scale, Load | Const) else None
        case _:
            return None


def _is_small(compute: Compute) -> bool:
    """Whether the sum fits in 32 bits whatever the operands."""
    count = 1
    for a in compute.reduce_axes:
        if a.extent.constant is None:
            return False
        count *= a.size
    return count * _LARGEST_PRODUCT < 1 << 31
