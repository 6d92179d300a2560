from __future__ import annotations

import numpy as np
import pytest
from onnx import NodeProto, helper

from compiler.pipeline import load_graph, lower, lower_any_size
from compiler.workload.work import Work, work_of
from tests.compiler.frontend.models import model, relu

MOVED = 2 * 4 * 8
"""Units of an element that is read and written: 8 for each byte."""


def found(*nodes: NodeProto, x: tuple[int, ...], **constants: np.ndarray) -> Work:
    (subgraph,) = lower(load_graph(model(nodes, {"x": x}, constants))).subgraphs
    return work_of(subgraph.workload)


def work(*nodes: NodeProto, x: tuple[int, ...], **constants: np.ndarray) -> int:
    far = found(*nodes, x=x, **constants).far
    assert isinstance(far, int)
    return far


def test_a_map_counts_its_nodes() -> None:
    assert work(relu(), x=(8, 16)) == 8 * 16 * (3 * 4 + MOVED)


def test_a_sum_of_products_counts_least() -> None:
    product = helper.make_node("MatMul", ["x", "w"], ["y"])
    stored = 8 * 16 * 4
    assert (
        work(product, x=(8, 32), w=np.ones((32, 16), np.float32))
        == 8 * 32 * 16 * 3 + stored + (8 * 32 + 8 * 16) * MOVED // 2
    )


@pytest.mark.parametrize(
    ("source", "axis", "apart"),
    [("x", 0, False), ("x", 1, False), ("turned", 0, False), ("turned", 1, False)],
)
def test_reductions_read_along_what_is_left_or_what_is_summed(source: str, axis: int, *, apart: bool) -> None:
    nodes = [
        helper.make_node("Transpose", ["x"], ["turned"], perm=[1, 0]),
        helper.make_node("ReduceMax", [source, "axes"], ["y"], keepdims=0),
    ]
    assert (work(*nodes, x=(8, 16), axes=np.array([axis])) >= 64 * 8 * 16) == apart


def test_elements_that_lie_apart_count_as_many_lines() -> None:
    assert work(helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0]), x=(8, 16)) == 8 * 16 * (64 + MOVED)
    window = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2])
    read, stored = 2 * 8 * 16, 2 * 4 * 8
    assert work(window, x=(1, 2, 8, 16)) == read * 2 * 4 + stored * 4 + (read + stored) * MOVED // 2


def test_near_bytes_count_once_and_constants_four_times() -> None:
    product = helper.make_node("MatMul", ["x", "w"], ["y"])
    weights = np.ones((32, 16), np.float32)
    of_all = found(product, x=(8, 32), w=weights)
    assert of_all.constant == weights.nbytes
    assert sum(map(int, of_all.moved.values())) == 4 * (8 * 32 + 8 * 16)
    assert of_all.near == of_all.computed + 4 * (8 * 32 + 8 * 16) + 4 * weights.nbytes


def test_of_what_is_looked_up_only_what_is_read_counts() -> None:
    gather = helper.make_node("Gather", ["x", "places"], ["y"], axis=0)
    of_all = found(gather, x=(5000, 16), places=np.array([3, 4999]))
    assert sorted(map(int, of_all.moved.values())) == [2 * 16 * 4, 2 * 16 * 4]


def test_open_sizes_are_symbols() -> None:
    (subgraph,) = lower_any_size(model([relu()], {"x": ["n", 16]})).subgraphs
    (own,) = subgraph.workload.symbols
    assert str(work_of(subgraph.workload).far) == f"{own.name}*{16 * (3 * 4 + MOVED)}"
