"""Groups that store several values, and when they do not."""

from __future__ import annotations

import numpy as np

from compiler.graph.assign_layouts import assign_layouts
from compiler.graph.evaluate import evaluate_graph
from compiler.graph.ir import Graph
from compiler.scalar import Const, Expr, apply
from compiler.workload.canonical import canonicalise
from compiler.workload.chains import chains, single
from compiler.workload.evaluate import evaluate_program
from compiler.workload.fusion import FusedNodes
from compiler.workload.partition import partition
from compiler.workload.siblings import merge_siblings
from compiler.workload.stages import Storage, build_workload
from compiler.workload.verify import verify_program
from tests.compiler.workload.graphs import GraphBuilder, index, load, random_inputs


def _merged(graph: Graph) -> tuple[FusedNodes, ...]:
    layouts = assign_layouts(graph)
    return tuple(chain.last for chain in merge_siblings(chains(graph, layouts), graph, layouts))


def _stored(graph: Graph) -> list[list[str]]:
    """Values that each group stores; the whole Program is evaluated on the way."""
    program = partition(graph)
    verify_program(program)
    inputs = random_inputs(graph)
    expected = evaluate_graph(graph, inputs)
    for name, values in evaluate_program(program, inputs).items():
        np.testing.assert_allclose(values, expected[name], atol=1e-9)
    return [[output.node.output for output in fused.outputs] for fused in _merged(graph)]


def _cell(b: GraphBuilder, rows: int, hidden: int) -> tuple[str, str]:
    """The maps of an LSTM cell after one matrix product of all gates."""
    gates = b.bias(b.matmul(b.input("x", rows, 3), 4 * hidden))
    c = b.input("c", rows, hidden)

    def gate(block: int, op: str) -> str:
        return b.node((rows, hidden), apply(op, load(gates, "a0", index("a1") + block * hidden)))

    i, o, f, new = gate(0, "sigmoid"), gate(1, "sigmoid"), gate(2, "sigmoid"), gate(3, "tanh")
    kept = b.node((rows, hidden), apply("mul", b.at(f), b.at(c)))
    added = b.node((rows, hidden), apply("mul", b.at(i), b.at(new)))
    state = b.add(kept, added)
    squashed = b.node((rows, hidden), apply("tanh", b.at(state)))
    return state, b.node((rows, hidden), apply("mul", b.at(o), b.at(squashed)))


def test_two_readers_of_an_anchor_are_stored_in_one_pass() -> None:
    b = GraphBuilder()
    conv = b.conv(b.input("x", 1, 3, 6, 6), 4)
    first, second = b.relu(conv), b.node(b.shapes[conv], apply("neg", b.at(conv)))
    assert _stored(b.graph(first, second)) == [[first, second]]


def test_a_value_that_is_read_elsewhere_too_is_stored_besides() -> None:
    b = GraphBuilder()
    conv = b.conv(b.input("x", 1, 3, 6, 6), 4)
    last = b.relu(conv)
    outputs = b.conv(conv, 4), b.conv(last, 4)
    assert _stored(b.graph(*outputs)) == [[conv, last], [outputs[0]], [outputs[1]]]


def test_maps_of_one_input_read_it_once() -> None:
    b = GraphBuilder()
    x = b.input("x", 4, 6)
    first, second = b.relu(x), b.bias(x)
    assert _stored(b.graph(first, second)) == [[first, second]]


def test_maps_that_share_only_a_broadcast_stay_apart() -> None:
    b = GraphBuilder()
    x, y, scale = b.input("x", 4, 6), b.input("y", 4, 6), b.input("s", 1, 6)
    scaled = [b.node((4, 6), apply("mul", b.at(v), load(scale, 0, "a1"))) for v in (x, y)]
    assert _stored(b.graph(*scaled)) == [[v] for v in scaled]


def test_no_group_waits_for_another_that_waits_for_it() -> None:
    b = GraphBuilder()
    top = b.conv(b.input("x", 1, 4, 6, 6), 4)
    left = b.relu(top)
    side = b.conv(left, 4)
    joined = b.add(left, side)
    assert _stored(b.graph(joined)) == [[left], [joined]]


def test_a_shifted_reader_stays_apart() -> None:
    b = GraphBuilder()
    product = b.matmul(b.input("x", 4, 6), 5)
    kept = b.relu(product)
    shifted = b.node((4, 4), apply("neg", load(product, "a0", index("a1") + 1)))
    assert _stored(b.graph(kept, shifted)) == [[product, kept], [shifted]]


def test_a_recurrent_cell_is_one_group() -> None:
    b = GraphBuilder()
    state, output = _cell(b, 3, 8)
    graph = b.graph(output, state)
    assert _stored(graph) == [[state, output]]
    (fused,) = _merged(graph)
    assert fused.anchor is not None


def test_a_cell_whose_gates_are_an_output_keeps_them_apart() -> None:
    b = GraphBuilder()
    state, output = _cell(b, 2, 4)
    gates = b.nodes[1].output
    assert _stored(b.graph(output, state, gates)) == [[gates], [state, output]]


def test_equal_work_has_one_digest_in_any_order_of_outputs() -> None:
    def digest(*, swapped: bool) -> str:
        b = GraphBuilder()
        x = b.input("x", 4, 6)
        bodies: list[Expr] = [apply("tanh", b.at(x)), apply("neg", apply("exp", b.at(x)))]
        values = [b.node((4, 6), body) for body in (reversed(bodies) if swapped else bodies)]
        graph = b.graph(*values)
        (fused,) = _merged(graph)
        storage = Storage(graph.types(), assign_layouts(graph), {})
        return canonicalise(build_workload(single(fused), storage)).workload.digest

    assert digest(swapped=False) == digest(swapped=True)


def _normalised(b: GraphBuilder) -> str:
    """Rows without their means, a chain of two groups."""
    x = b.input("x", 4, 6)
    total = b.node((4, 1), load(x, "a0", "r0"), (6,), "sum")
    return b.node((4, 6), apply("sub", b.at(x), apply("mul", load(total, "a0", 0), Const(1 / 6))))


def test_a_map_that_reads_the_end_of_a_chain_twice_is_its_end() -> None:
    b = GraphBuilder()
    y = _normalised(b)
    gate = b.node((4, 6), apply("sigmoid", b.at(y)))
    swish = b.node((4, 6), apply("mul", b.at(y), b.at(gate)))
    assert _stored(b.graph(swish)) == [[swish]]


def test_the_end_of_a_chain_that_others_need_stays_its_end() -> None:
    b = GraphBuilder()
    y = _normalised(b)
    square = b.node((4, 6), apply("mul", b.at(y), b.at(y)))
    assert _stored(b.graph(square, y)) == [[y], [square]]
