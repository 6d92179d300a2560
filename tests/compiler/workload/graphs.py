"""Builds small Graphs by hand, in the form that the frontend gives them."""

from __future__ import annotations

import numpy as np

from compiler.dtype import DType
from compiler.graph.dce import EliminateDeadCode
from compiler.graph.inline_movement import InlineMovements
from compiler.graph.ir import Compute, Graph, Node, TensorType
from compiler.index import Index
from compiler.scalar import Bound, Const, Expr, Guard, Load, apply
from compiler.symbol import axis


def index(value: str | int | Index) -> Index:
    return Index.of(value)


def load(buffer: str, *indices: str | int | Index) -> Load:
    return Load(buffer, tuple(index(i) for i in indices))


class GraphBuilder:
    """Each method adds a node and returns the name of its value."""

    def __init__(self) -> None:
        self.inputs: dict[str, TensorType] = {}
        self.constants: dict[str, np.ndarray] = {}
        self.nodes: list[Node] = []
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._rng = np.random.default_rng(0)

    def graph(self, *outputs: str) -> Graph:
        return Graph(self.inputs, outputs, self.constants, tuple(self.nodes))

    def input(self, name: str, *shape: int) -> str:
        self.inputs[name] = TensorType(tuple(index(n) for n in shape), DType.F32)
        self.shapes[name] = shape
        return name

    def constant(self, *shape: int) -> str:
        name = f"k{len(self.constants)}"
        self.constants[name] = self._rng.standard_normal(shape).astype(np.float32)
        self.shapes[name] = shape
        return name

    def node(
        self, shape: tuple[int, ...], body: Expr, reduce: tuple[int, ...] = (), reducer: str | None = None
    ) -> str:
        """Axes are a0, a1, ...; reduction axes r0, r1, ..."""
        name = f"v{len(self.nodes)}"
        axes = tuple(axis(f"a{i}", n) for i, n in enumerate(shape))
        reduce_axes = tuple(axis(f"r{i}", n) for i, n in enumerate(reduce))
        self.nodes.append(Node(f"node {name}", name, Compute(axes, reduce_axes, reducer, body)))
        self.shapes[name] = shape
        return name

    def conv(
        self,
        x: str,
        channels: int,
        k: int = 1,
        stride: int = 1,
        pad: int = 0,
        groups: int = 1,
        apart: int = 1,
    ) -> str:
        """`apart`: elements between neighbouring taps."""
        n, ic, h, w = self.shapes[x]
        weights = self.constant(channels, ic // groups, k, k)
        out = [(size + 2 * pad - apart * (k - 1) - 1) // stride + 1 for size in (h, w)]
        channel = index("r0")
        if groups > 1:
            per = channels // groups
            channel = index("r0") + (index("a1") // per) * (ic // groups)
        y, z = (index(f"a{d}") * stride + index(f"r{d - 1}") * apart - pad for d in (2, 3))
        data: Expr = load(x, "a0", channel, y, z)
        if pad:
            data = Guard((Bound(y, 0, h), Bound(z, 0, w)), data, Const(0.0))
        body = apply("mul", data, load(weights, "a1", "r0", "r1", "r2"))
        return self.node((n, channels, *out), body, (ic // groups, k, k), "sum")

    def pool(self, x: str, k: int, stride: int, pad: int, reducer: str = "max") -> str:
        n, c, h, w = self.shapes[x]
        y, z = (index(f"a{d}") * stride + f"r{d - 2}" - pad for d in (2, 3))
        outside = float("-inf") if reducer == "max" else 0.0
        body = Guard((Bound(y, 0, h), Bound(z, 0, w)), load(x, "a0", "a1", y, z), Const(outside))
        out = [(size + 2 * pad - k) // stride + 1 for size in (h, w)]
        return self.node((n, c, *out), body, (k, k), reducer)

    def mean(self, x: str) -> str:
        n, c, h, w = self.shapes[x]
        total = self.node((n, c, 1, 1), load(x, "a0", "a1", "r0", "r1"), (h, w), "sum")
        body = apply("mul", load(total, "a0", "a1", "a2", "a3"), Const(1 / (h * w)))
        return self.node((n, c, 1, 1), body)

    def matmul(self, x: str, columns: int) -> str:
        rows, inner = self.shapes[x]
        weights = self.constant(inner, columns)
        body = apply("mul", load(x, "a0", "r0"), load(weights, "r0", "a1"))
        return self.node((rows, columns), body, (inner,), "sum")

    def relu(self, x: str) -> str:
        return self.node(self.shapes[x], apply("max", self.at(x), Const(0.0)))

    def add(self, x: str, y: str) -> str:
        return self.node(self.shapes[x], apply("add", self.at(x), self.at(y)))

    def bias(self, x: str) -> str:
        value = self.constant(self.shapes[x][1])
        return self.node(self.shapes[x], apply("add", self.at(x), load(value, "a1")))

    def flatten(self, x: str) -> str:
        n, c, h, w = self.shapes[x]
        k = index("a1")
        body = load(x, "a0", k // (h * w), (k % (h * w)) // w, k % w)
        ranges = {"a0": n, "a1": c * h * w}
        simple = load(x, *(i.simplify(ranges) for i in body.indices))
        return self.node((n, c * h * w), simple)

    def transpose(self, x: str, *order: int) -> str:
        shape = self.shapes[x]
        where = [""] * len(order)
        for position, dim in enumerate(order):
            where[dim] = f"a{position}"
        return self.node(tuple(shape[d] for d in order), load(x, *where))

    def at(self, x: str) -> Load:
        return load(x, *(f"a{i}" for i in range(len(self.shapes[x]))))


def bottleneck(size: int = 8) -> Graph:
    """A residual block in the style of ResNet: padded convolutions, a shortcut, pooling, a classifier."""
    b = GraphBuilder()
    x = b.input("image", 1, 3, 2 * size, 2 * size)
    stem = b.relu(b.bias(b.conv(x, 8, k=3, stride=2, pad=1)))
    pooled = b.pool(stem, 3, 1, 1)
    narrow = b.relu(b.bias(b.conv(pooled, 4)))
    middle = b.relu(b.bias(b.conv(narrow, 4, k=3, pad=1)))
    wide = b.bias(b.conv(middle, 16))
    shortcut = b.bias(b.conv(pooled, 16))
    joined = b.relu(b.add(wide, shortcut))
    features = b.flatten(b.mean(joined))
    graph = b.graph(b.bias(b.matmul(features, 10)))
    return EliminateDeadCode().run(InlineMovements().run(graph))


def random_inputs(graph: Graph, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(kind.sizes) for name, kind in graph.inputs.items()}
