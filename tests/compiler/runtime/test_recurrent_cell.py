"""An LSTM cell that a model writes out with plain operators becomes two kernels and gives ONNX's own values."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from compiler.choice import default_schedule
from compiler.pipeline import build_kernel, compile_program, load_graph, lower
from compiler.schedule.source import NoSource
from compiler.target import native_target


def cell(batch: int, hidden: int, inputs: int) -> onnx.ModelProto:
    """Gates i, o, f, c of `hidden` units each, as two Gemms and a Split."""
    rng = np.random.default_rng(0)

    def constant(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)

    def value(name: str, *shape: int) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    nodes = [
        helper.make_node("Gemm", ["x", "w", "wb"], ["from_x"], transB=1),
        helper.make_node("Gemm", ["h", "r", "rb"], ["from_h"], transB=1),
        helper.make_node("Add", ["from_x", "from_h"], ["gates"]),
        helper.make_node("Split", ["gates"], ["gi", "go", "gf", "gc"], axis=1),
        helper.make_node("Sigmoid", ["gi"], ["i"]),
        helper.make_node("Sigmoid", ["go"], ["o"]),
        helper.make_node("Sigmoid", ["gf"], ["f"]),
        helper.make_node("Tanh", ["gc"], ["new"]),
        helper.make_node("Mul", ["f", "c"], ["kept"]),
        helper.make_node("Mul", ["i", "new"], ["added"]),
        helper.make_node("Add", ["kept", "added"], ["C"]),
        helper.make_node("Tanh", ["C"], ["squashed"]),
        helper.make_node("Mul", ["o", "squashed"], ["H"]),
    ]
    constants = [
        constant("w", 4 * hidden, inputs),
        constant("r", 4 * hidden, hidden),
        constant("wb", 4 * hidden),
        constant("rb", 4 * hidden),
    ]
    state = [value("h", batch, hidden), value("c", batch, hidden)]
    outputs = [value("H", batch, hidden), value("C", batch, hidden)]
    graph = helper.make_graph(nodes, "cell", [value("x", batch, inputs), *state], outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)], ir_version=8)


@pytest.mark.parametrize(("batch", "hidden", "inputs"), [(1, 24, 17), (3, 20, 24), (9, 32, 8)])
def test_the_cell_is_one_kernel_a_contraction(batch: int, hidden: int, inputs: int) -> None:
    model = cell(batch, hidden, inputs)
    rng = np.random.default_rng(1)
    program = lower(load_graph(model))
    arrays = {n: rng.standard_normal(t.sizes).astype(np.float32) for n, t in program.inputs.items()}
    expected = ReferenceEvaluator(model).run(["H", "C"], arrays)
    assert len(program.subgraphs) == 2
    last = program.subgraphs[-1].workload
    assert len(last.outputs) == 2
    kernel = build_kernel(last, default_schedule(last, native_target(), 1), native_target())
    assert not [p for p in kernel.params if p.role == "scratch"]
    with closing(compile_program(program, native_target(), 2, NoSource())) as module:
        got = module.run(arrays)
    for name, values in zip(["H", "C"], expected, strict=True):
        np.testing.assert_allclose(got[name], values, atol=1e-5)
