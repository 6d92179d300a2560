import pytest

from compiler.dtype import DType
from compiler.errors import InputError
from compiler.graph.ir import Compute, Graph, Node, TensorType
from compiler.graph.specialise import Specialise
from compiler.graph.verify import verify_graph
from compiler.index import Index
from compiler.scalar import apply
from compiler.symbol import Symbol, axis
from tests.compiler.graph.building import load


def symbolic() -> Graph:
    """y[i] = x reversed along n, plus the sum over m of z."""
    n, m = Index.of("n"), Index.of("m")
    reverse = Compute((axis("a0", n),), (), None, load("x", n - 1 - "a0"))
    total = Compute((axis("a0", n),), (axis("r0", m),), "sum", apply("mul", load("z", "r0"), load("t", "a0")))
    return Graph(
        {"x": TensorType((n,), DType.F32), "z": TensorType((m,), DType.F32)},
        ("y",),
        {},
        (Node("reverse", "t", reverse), Node("total", "y", total)),
        (Symbol("n", 1, 64), Symbol("m")),
    )


def test_symbols_get_their_values_everywhere() -> None:
    after = Specialise({"n": 4, "m": 3}).run(symbolic())
    verify_graph(after)
    assert after.symbols == ()
    assert after.inputs["x"].sizes == (4,)
    assert after.nodes[0].compute.body == load("x", Index.of(3) - "a0")
    assert after.nodes[1].compute.ranges == {"a0": 4, "r0": 3}


def test_the_others_stay() -> None:
    after = Specialise({"n": 4}).run(symbolic())
    verify_graph(after)
    assert [s.name for s in after.symbols] == ["m"]


def test_same_object_without_symbols() -> None:
    before = symbolic()
    assert Specialise({}).run(before) is before
    static = Specialise({"n": 4, "m": 3}).run(before)
    assert Specialise({"n": 4}).run(static) is static


def test_a_value_out_of_range_is_an_error() -> None:
    with pytest.raises(InputError, match=r"n = 65 is outside 1\.\.64"):
        Specialise({"n": 65}).run(symbolic())
