from collections.abc import Callable

from compiler.graph.printer import graph_text
from compiler.index import Index
from compiler.scalar import Const, apply
from tests.compiler.graph.building import graph, load, node, within


def test_every_kind_of_node(golden: Callable[[str, str], None]) -> None:
    row = Index.of("a1") * 2 + "r1" - 1
    window = within(load("x", "r0", row), Const(0.0), (row, 0, 8))
    built = graph(
        {"x": (3, 8)},
        [
            node("conv", (4, 4), apply("mul", window, load("w", "a0", "r0", "r1")), (3, 3)),
            node("biased", (4, 4), apply("add", load("conv", "a0", "a1"), load("b", "a0"))),
            node("pooled", (4,), load("biased", "a0", "r0"), (4,), "max"),
            node("y", (2, 2), load("pooled", Index.of("a0") * 2 + "a1")),
        ],
        constants={"w": (4, 3, 3), "b": (4,)},
    )
    golden(graph_text(built), "graph/every_kind_of_node")
