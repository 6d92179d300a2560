"""Short ways to write small graphs in tests."""

from collections.abc import Mapping, Sequence

import numpy as np

from compiler.dtype import DType
from compiler.graph.evaluate import evaluate_graph
from compiler.graph.ir import Compute, Graph, Node, TensorType
from compiler.graph.verify import verify_graph
from compiler.index import Index
from compiler.scalar import Bound, Expr, Guard, Load
from compiler.symbol import axis

Shape = tuple[int, ...]
Place = str | int | Index


def load(buffer: str, *indices: Place) -> Load:
    """`load("x", "a0", 0)` is x[a0, 0]."""
    return Load(buffer, tuple(Index.of(i) for i in indices))


def within(inside: Expr, outside: Expr, *tests: tuple[Place, int, int]) -> Guard:
    """`within(x, y, ("a0", 0, 3))` is x if 0 <= a0 < 3 else y."""
    return Guard(tuple(Bound(Index.of(i), low, high) for i, low, high in tests), inside, outside)


def node(output: str, shape: Shape, body: Expr, reduce: Shape = (), reducer: str = "sum") -> Node:
    """A node over axes a0, a1, ... and r0, r1, ..."""
    axes = tuple(axis(f"a{d}", n) for d, n in enumerate(shape))
    inner = tuple(axis(f"r{d}", n) for d, n in enumerate(reduce))
    return Node(f"make_{output}", output, Compute(axes, inner, reducer if inner else None, body))


def graph(
    inputs: Mapping[str, Shape],
    nodes: Sequence[Node],
    outputs: Sequence[str] = ("y",),
    constants: Mapping[str, Shape | np.ndarray] | None = None,
) -> Graph:
    """A valid graph; constants given by shape get random values."""
    random = np.random.default_rng(0)
    types = {n: TensorType(tuple(Index.of(e) for e in s), DType.F32) for n, s in inputs.items()}
    arrays = {
        n: c if isinstance(c, np.ndarray) else random.standard_normal(c).astype(np.float32)
        for n, c in (constants or {}).items()
    }
    built = Graph(types, tuple(outputs), arrays, tuple(nodes), name="example")
    verify_graph(built)
    return built


def assert_same_values(before: Graph, after: Graph, rtol: float = 1e-6) -> None:
    """Both compute the same outputs (up to the rounding of folded f32 constants), and `after` is valid."""
    verify_graph(after)
    random = np.random.default_rng(1)
    inputs = {n: random.standard_normal(t.sizes).astype(np.float32) for n, t in before.inputs.items()}
    assert before.outputs == after.outputs
    assert dict(before.inputs) == dict(after.inputs)
    expected, actual = evaluate_graph(before, inputs), evaluate_graph(after, inputs)
    for name in before.outputs:
        np.testing.assert_allclose(actual[name], expected[name], rtol=rtol, atol=rtol)
