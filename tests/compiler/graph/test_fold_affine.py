from collections.abc import Callable

import numpy as np
import pytest

from compiler.graph.fold_affine import FoldAffine
from compiler.graph.fold_constants import FoldConstants
from compiler.graph.ir import ComputeKind, Graph, Node
from compiler.graph.printer import graph_text
from compiler.scalar import Const, Expr, apply
from tests.compiler.graph.building import Shape, assert_same_values, graph, load, node

PRODUCT = apply("mul", load("x", "a0", "r0"), load("w", "r0", "a1"))
SHAPES: dict[str, Shape | np.ndarray] = {
    "w": (5, 4),
    "s": (4,),
    "b": (4,),
    "v": (4,),
    "rows": (3,),
    "full": (3, 4),
}


def example(*maps: Node, body: Expr = PRODUCT, outputs: tuple[str, ...] = ("y",)) -> Graph:
    """A matrix product t of x and w, and maps after it."""
    read = {v for m in maps for v in m.compute.reads} | {"w"}
    constants = {n: s for n, s in SHAPES.items() if n in read}
    return graph({"x": (3, 5)}, [node("t", (3, 4), body, (5,)), *maps], outputs, constants)


def over(output: str, body: Expr) -> Node:
    return node(output, (3, 4), body)


T = load("t", "a0", "a1")
S, B, V = load("s", "a1"), load("b", "a1"), load("v", "a1")


def folded(before: Graph) -> Graph:
    after = FoldAffine().run(before)
    assert_same_values(before, after, rtol=1e-6)
    assert FoldAffine().run(after) is after
    small = FoldConstants().run(after)
    assert_same_values(before, small, rtol=1e-5)
    return small


def test_scale_and_offset(golden: Callable[[str, str], None]) -> None:
    before = example(over("y", apply("add", apply("mul", T, S), B)))
    golden(graph_text(FoldAffine().run(before)), "graph/fold_affine")
    after = folded(before)
    assert [n.output for n in after.nodes] == ["t", "y"]
    assert after.nodes[1].compute.body == apply("add", T, B)
    w, s = before.constants["w"], before.constants["s"]
    np.testing.assert_allclose(after.constants["w.scaled"], w * s, rtol=1e-6)


def test_a_pure_scale_leaves_only_the_contraction() -> None:
    after = folded(example(over("y", apply("div", T, Const(3.0)))))
    (only,) = after.nodes
    assert only.output == "y"
    assert only.compute.kind is ComputeKind.CONTRACTION


def test_a_whole_chain_of_maps() -> None:
    chain = (
        over("u", apply("add", T, B)),
        over("n", apply("mul", apply("sub", load("u", "a0", "a1"), V), S)),
        over("y", apply("neg", apply("add", load("n", "a0", "a1"), B))),
    )
    after = folded(example(*chain))
    assert [n.output for n in after.nodes] == ["t", "y"]


def test_two_offsets_become_one_without_touching_the_constant() -> None:
    after = folded(example(over("u", apply("add", T, B)), over("y", apply("add", load("u", "a0", "a1"), V))))
    assert [n.output for n in after.nodes] == ["t", "y"]
    assert "w" in after.constants


def test_scales_after_a_convolution_with_groups() -> None:
    body = apply("mul", load("x", "a0", "r0"), load("w", "a0", "r0"))
    before = graph(
        {"x": (3, 5)},
        [
            node("t", (3, 1), body, (5,)),
            node("y", (3, 1), apply("mul", load("t", "a0", "a1"), load("rows", "a0"))),
        ],
        constants={"w": (3, 5), "rows": (3,)},
    )
    (only,) = folded(before).nodes
    assert only.compute.kind is ComputeKind.CONTRACTION


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(example(over("y", apply("add", T, B))), id="nothing but one offset"),
        pytest.param(
            example(over("y", apply("mul", T, load("rows", "a0")))), id="scale along the other axis"
        ),
        pytest.param(example(over("y", apply("mul", T, load("full", "a0", "a1")))), id="scale per element"),
        pytest.param(example(over("y", apply("mul", T, T))), id="square"),
        pytest.param(example(over("y", apply("max", apply("mul", T, S), Const(0.0)))), id="not affine"),
        pytest.param(example(over("y", apply("mul", T, load("x", "a0", 0)))), id="scale not constant"),
        pytest.param(
            example(over("y", apply("mul", T, S)), over("z", apply("abs", T)), outputs=("y", "z")),
            id="two readers",
        ),
        pytest.param(example(over("y", apply("mul", T, S)), outputs=("y", "t")), id="product is an output"),
        pytest.param(
            example(
                over("y", apply("mul", T, S)), body=apply("mul", load("x", "a0", "r0"), load("x", "a0", 0))
            ),
            id="no constant",
        ),
    ],
)
def test_what_cannot_be_folded_stays(before: Graph) -> None:
    assert FoldAffine().run(before) is before


def test_a_transposed_reader_is_no_affine_map() -> None:
    before = graph(
        {"x": (4, 5)},
        [
            node("t", (4, 4), PRODUCT, (5,)),
            node("y", (4, 4), apply("mul", load("t", "a1", "a0"), Const(2.0))),
        ],
        constants={"w": (5, 4)},
    )
    assert FoldAffine().run(before) is before
