from collections.abc import Callable

from compiler.graph.ir import ComputeKind
from compiler.graph.pipeline import GRAPH_PASSES, optimise
from compiler.graph.printer import graph_text
from compiler.index import Index
from compiler.scalar import Const, apply
from tests.compiler.graph.building import assert_same_values, graph, load, node, within

A1 = Index.of("a1")


def test_names_tell_the_passes_apart() -> None:
    assert len({step.name for step in GRAPH_PASSES}) == len(set(GRAPH_PASSES))


def test_padding_convolution_norm_and_relu(golden: Callable[[str, str], None]) -> None:
    row = A1 - 1
    at = ("a0", "a1")
    deviation = apply("sqrt", apply("add", load("variance", "a0"), Const(1e-5)))
    before = graph(
        {"x": (3, 8)},
        [
            node("padded", (3, 10), within(load("x", "a0", row), Const(0.0), (row, 0, 8))),
            node(
                "conv",
                (4, 8),
                apply("mul", load("padded", "r0", A1 + "r1"), load("w", "a0", "r0", "r1")),
                (3, 3),
            ),
            node("biased", (4, 8), apply("add", load("conv", *at), load("bias", "a0"))),
            node("scale", (4,), apply("div", load("gamma", "a0"), deviation)),
            node("shift", (4,), apply("neg", apply("mul", load("mean", "a0"), load("scale", "a0")))),
            node(
                "norm",
                (4, 8),
                apply("add", apply("mul", load("biased", *at), load("scale", "a0")), load("shift", "a0")),
            ),
            node("relu", (4, 8), apply("max", load("norm", *at), Const(0.0))),
            node("relu2", (4, 8), apply("max", load("relu", *at), Const(0.0))),
            node("y", (4, 8), load("relu2", *at)),
        ],
        constants={"w": (4, 3, 3), "bias": (4,), "gamma": (4,), "mean": (4,), "variance": (4,)},
    )
    before.constants["variance"][:] = [1, 2, 3, 4]  # type: ignore[index]
    after = optimise(before)
    golden(graph_text(after), "graph/pipeline")
    assert_same_values(before, after, rtol=1e-5)
    kinds = [n.compute.kind for n in after.nodes]
    assert kinds == [ComputeKind.CONTRACTION, ComputeKind.MAP, ComputeKind.MAP]
    assert optimise(after) is after


def test_norms_of_groups_of_channels_read_no_reshape() -> None:
    """As exporters write them: reshaped to groups, normalised, reshaped back."""
    a0, a1 = Index.of("a0"), A1
    deviation = apply("sub", load("t", "a0", "r0"), load("mean", "a0"))
    spread = apply("sub", load("t", "a0", "a1"), load("mean", "a0"))
    before = graph(
        {"x": (8, 10, 10)},
        [
            node("c", (8, 10, 10), apply("exp", load("x", "a0", "a1", "a2"))),
            node("t", (2, 400), load("c", a0 * 4 + a1 // 100, a1 % 100 // 10, a1 % 10)),
            node("total", (2,), load("t", "a0", "r0"), (400,)),
            node("mean", (2,), apply("mul", load("total", "a0"), Const(1 / 400))),
            node("variance", (2,), apply("mul", deviation, deviation), (400,)),
            node("n", (2, 400), apply("div", spread, apply("sqrt", load("variance", "a0")))),
            node("back", (8, 10, 10), load("n", a0 // 4, a0 % 4 * 100 + a1 * 10 + "a2")),
            node("y", (8, 10, 10), apply("max", load("back", "a0", "a1", "a2"), Const(0.0))),
        ],
    )
    after = optimise(before)
    assert_same_values(before, after, rtol=1e-5)
    assert ComputeKind.MOVEMENT not in {n.compute.kind for n in after.nodes}
    assert {n.compute.type.sizes for n in after.nodes} == {(8, 10, 10), (2,)}
