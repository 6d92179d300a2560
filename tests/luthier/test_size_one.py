"""Code of its own for size 1, where nobody named sizes and one row would cost as much as many."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import luthier
from compiler.target import PRESETS, Target
from luthier.build import compile_model, make_options

V4 = PRESETS["x86-64-v4"]
WITH_MATRICES = replace(
    V4, features=tuple(sorted({*V4.features, "avx512vnni", "avx512bf16", "amx-tile", "amx-int8", "amx-bf16"}))
)


def weights(name: str, *shape: int) -> TensorProto:
    values = np.random.default_rng(0).standard_normal(shape).astype(np.float32) / 16
    return numpy_helper.from_array(values, name)


def model(nodes: list[onnx.NodeProto], x: list[int | str], constants: list[TensorProto]) -> onnx.ModelProto:
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def layers(*x: int | str) -> onnx.ModelProto:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "v"], ["y"]),
    ]
    return model(nodes, list(x), [weights("w", 256, 256), weights("v", 256, 64)])


def shapes_of(model: onnx.ModelProto, target: Target, **options: object) -> list[tuple[int, ...]]:
    chosen = make_options(target=target, threads=1, runs_here=False, **options)  # type: ignore[arg-type]
    image = compile_model(model, chosen)
    return [part.inputs[0].sizes() for part in image.named]


def test_rows_of_a_table_get_code_for_one_of_them() -> None:
    assert shapes_of(layers("rows", 256), WITH_MATRICES) == [(1, 256)]


def test_without_matrices_code_for_all_sizes_does() -> None:
    assert shapes_of(layers("rows", 256), V4) == []


@pytest.mark.parametrize("x", [("batch", "words", 256), (4, 256)])
def test_other_sizes_are_not_guessed(x: tuple[int | str, ...]) -> None:
    assert shapes_of(layers(*x), WITH_MATRICES) == []


def test_sizes_that_were_named_are_all() -> None:
    named = [{"x": (3, 256)}, {"x": (5, 256)}]
    assert shapes_of(layers("rows", 256), WITH_MATRICES, shapes=named) == [(3, 256), (5, 256)]


def test_of_an_image_there_are_always_many_pixels() -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    conv = model([node], ["batch", 16, 14, 14], [weights("w", 32, 16, 3, 3)])
    assert shapes_of(conv, WITH_MATRICES) == []


def test_one_row_and_many_agree() -> None:
    module = luthier.compile(layers("rows", 256), threads=2)
    x = np.random.default_rng(1).standard_normal((9, 256)).astype(np.float32)
    assert isinstance(module, luthier.Module)
    assert [symbol.name for symbol in module.symbols] == ["rows"]
    many = module.run({"x": x})["y"]
    for row in range(9):
        one = module.run({"x": x[row : row + 1]})["y"]
        np.testing.assert_allclose(one, many[row : row + 1], rtol=1e-4, atol=1e-5)
    module.close()
