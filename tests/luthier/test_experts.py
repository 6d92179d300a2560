"""Products with matrices that each row chooses for itself, against NumPy."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import luthier
from compiler.loop.ir import For, LoopKind, Store, walk_statements
from compiler.pipeline import build_nest
from compiler.scalar import loads
from compiler.space.rules import build_space
from compiler.target import PRESETS
from luthier.build import make_options, read_program


def experts(
    rows: int, most: int, inner: int, outer: int, *, open_rows: bool = False
) -> tuple[bytes, np.ndarray]:
    """The model, and its matrices."""
    weights = np.random.default_rng(0).standard_normal((5, inner, outer)).astype(np.float32)
    count = "n" if open_rows else rows
    graph = helper.make_graph(
        [
            helper.make_node("Gather", ["w", "i"], ["t"]),
            helper.make_node("Einsum", ["x", "t"], ["s"], equation="nd,nkdf->nkf"),
            helper.make_node("Relu", ["s"], ["y"]),
        ],
        "experts",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [count, inner]),
            helper.make_tensor_value_info("i", TensorProto.INT64, [count, most]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return model.SerializeToString(), weights


def check(module: luthier.Module, weights: np.ndarray, rows: int, most: int) -> None:
    rng = np.random.default_rng(rows)
    x = rng.standard_normal((rows, weights.shape[1])).astype(np.float32)
    i = rng.integers(-5, 5, (rows, most))
    expected = np.maximum(np.einsum("nd,nkdf->nkf", x.astype(np.float64), weights[i]), 0)
    np.testing.assert_allclose(module.run({"x": x, "i": i})["y"], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("rows", "most", "inner", "outer"), [(5, 2, 7, 9), (16, 2, 64, 130), (1, 1, 33, 17)])
def test_each_row_with_its_own(rows: int, most: int, inner: int, outer: int, threads: int) -> None:
    model, weights = experts(rows, most, inner, outer)
    check(luthier.compile(model, threads=threads), weights, rows, most)


def test_any_number_of_rows() -> None:
    model, weights = experts(0, 2, 24, 40, open_rows=True)
    module = luthier.compile(model, threads=1)
    for rows in (1, 3, 16, 50):
        check(module, weights, rows, 2)


@pytest.mark.parametrize("rows", [1, 16])
def test_matrices_are_read_from_end_to_end_and_not_copied(rows: int) -> None:
    """However often each is chosen: lanes go along what lies side by side in what is looked up."""
    model, _ = experts(rows, 2, 64, 128)
    program = read_program(model, make_options(threads=1), any_size=False)
    (workload,) = [s.workload for s in program.subgraphs]
    space = build_space(workload, PRESETS["x86-64-v3"], 1)
    nest = build_nest(workload, space.schedule(space.default))
    assert all(prod(b.shape) <= 128 for b in nest.buffers if b.role is None)
    lanes = {
        loop.var
        for loop in walk_statements(nest.body)
        if isinstance(loop, For) and loop.kind is LoopKind.VECTOR
    }
    stores = [stmt for stmt in walk_statements(nest.body) if isinstance(stmt, Store)]
    (read,) = {load for stmt in stores for load in loads(stmt.value) if load.buffer == "c0"}
    assert read.indices[-1].names() & lanes
