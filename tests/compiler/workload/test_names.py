from __future__ import annotations

from compiler.index import Index
from compiler.scalar import Const, Load, apply
from compiler.workload.names import describe
from compiler.workload.partition import partition
from tests.compiler.workload.graphs import GraphBuilder, load


def _names(b: GraphBuilder, *outputs: str) -> list[str]:
    return [s.name for s in partition(b.graph(*outputs)).subgraphs]


def test_convolutions_have_kernel_channels_place_stride_and_epilogue() -> None:
    b = GraphBuilder()
    conv = b.relu(b.bias(b.conv(b.input("x", 1, 3, 9, 7), 8, k=3, stride=2)))
    assert _names(b, conv)[0] == "conv 3x3 3->8 @4x3 /2 +add+max"


def test_batches_are_part_of_the_place() -> None:
    b = GraphBuilder()
    assert _names(b, b.conv(b.input("x", 2, 3, 9, 7), 8))[0] == "conv 1x1 3->8 @2x9x7"


def test_a_merged_workload_is_described_too() -> None:
    b = GraphBuilder()
    hidden = b.conv(b.input("x", 1, 3, 9, 7), 8, k=3)
    program = partition(b.graph(b.mean(b.conv(hidden, 5))))
    assert program.subgraphs[1].name == "conv 1x1 8->5 @7x5"
    assert describe(program.subgraphs[1].workload) == "conv 1x1 8->5 @35"


def test_matrix_products_have_batch_rows_reduced_and_columns() -> None:
    b = GraphBuilder()
    x, y = b.input("x", 12, 7, 4), b.input("y", 12, 4, 9)
    body = apply("mul", load(x, "a0", "a1", "r0"), load(y, "a0", "r0", "a2"))
    assert _names(b, b.node((12, 7, 9), body, (4,), "sum")) == ["matmul 12*7x4x9"]


def test_places_within_a_stride_are_columns() -> None:
    b = GraphBuilder()
    x, w = b.input("x", 5, 4), b.constant(3, 4, 9)
    place = Index.of("a0")
    element = Load(x, (place // 3, Index.of("r0")))
    weights = Load(w, (place % 3, Index.of("r0"), Index.of("a1")))
    assert _names(b, b.node((15, 9), apply("mul", element, weights), (4,), "sum")) == ["matmul 5x4x27"]


def test_constant_matrices_of_a_batch_are_no_convolution() -> None:
    b = GraphBuilder()
    body = apply(
        "mul", load(b.input("x", 3, 7, 4), "a0", "a1", "r0"), load(b.constant(3, 4, 9), "a0", "r0", "a2")
    )
    assert _names(b, b.node((3, 7, 9), body, (4,), "sum")) == ["matmul 3*7x4x9"]


def test_windows_reductions_maps_and_copies() -> None:
    b = GraphBuilder()
    x = b.input("x", 1, 4, 9, 9)
    outs = (b.pool(x, 3, 2, 1), b.mean(x), b.relu(b.bias(x)), b.transpose(x, 0, 1, 3, 2))
    names = _names(b, *outs)
    assert names[:4] == [
        "window max 3x3 4 @5x5 /2",
        "reduce sum 9x9 -> 4 +mul",
        "map add+max 4x9x9",
        "copy 4x9x9",
    ]


def test_long_epilogues_are_cut_and_other_types_named() -> None:
    b = GraphBuilder()
    value = b.input("x", 4)
    for _ in range(8):
        value = b.node((4,), apply("add", b.at(value), Const(1.0)))
    assert _names(b, value) == ["map add+add+add+add+add+add+... 4"]


def test_scalar_outputs_have_a_name() -> None:
    b = GraphBuilder()
    total = b.node((), load(b.input("x", 5), Index.of("r0")), (5,), "sum")
    assert _names(b, b.node((1,), load(total)))[0] == "reduce sum 5 -> 1"
