import numpy as np

from compiler.graph.fold_constants import FoldConstants
from compiler.graph.ir import ComputeKind
from compiler.scalar import Const, apply
from tests.compiler.graph.building import assert_same_values, graph, load, node


def test_chains_of_constant_nodes_become_constants() -> None:
    before = graph(
        {"x": (3,)},
        [
            node("s", (3,), apply("div", load("c", "a0"), apply("sqrt", load("v", "a0")))),
            node("t", (3,), apply("neg", load("s", "a0"))),
            node("y", (3,), apply("mul", load("x", "a0"), load("t", "a0"))),
        ],
        constants={"c": (3,), "v": np.array([1, 2, 3], np.float32)},
    )
    after = FoldConstants().run(before)
    assert [n.output for n in after.nodes] == ["y"]
    assert after.constants["t"].dtype == np.float32
    assert not after.constants["t"].flags.writeable
    assert_same_values(before, after)
    assert FoldConstants().run(after) is after


def test_results_are_rounded_once() -> None:
    body = apply("sub", apply("add", load("c", "a0"), Const(1e-9)), load("c", "a0"))
    before = graph(
        {"x": (2,)},
        [node("t", (2,), body), node("y", (2,), apply("add", load("x", "a0"), load("t", "a0")))],
        constants={"c": np.ones(2, np.float32)},
    )
    np.testing.assert_allclose(FoldConstants().run(before).constants["t"], 1e-9, rtol=1e-6)


def test_constants_of_one_element_become_literals_of_maps() -> None:
    before = graph(
        {"x": (3,)},
        [
            node("t", (3,), apply("mul", load("x", "a0"), load("k", 0))),
            node("y", (), apply("mul", load("t", "r0"), load("one")), (3,)),
        ],
        constants={"k": np.array([0.5], np.float32), "one": np.array(2, np.float32)},
    )
    after = FoldConstants().run(before)
    assert after.nodes[0].compute.body == apply("mul", load("x", "a0"), Const(0.5))
    assert after.nodes[1].compute.kind is ComputeKind.CONTRACTION
    assert_same_values(before, after)


def test_outputs_stay_computed() -> None:
    before = graph({}, [node("y", (3,), apply("neg", load("c", "a0")))], constants={"c": (3,)})
    assert FoldConstants().run(before) is before


def test_a_result_much_larger_than_its_constants_is_not_stored() -> None:
    before = graph(
        {"x": (300, 300)},
        [
            node("t", (300, 300), load("c", "a1")),
            node("y", (300, 300), apply("add", load("x", "a0", "a1"), load("t", "a0", "a1"))),
        ],
        constants={"c": (300,)},
    )
    assert FoldConstants().run(before) is before
