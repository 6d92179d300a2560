"""Inputs that sums read in vectors again and again are found, and begin as vectors should whatever the caller gives."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import helper

from compiler.pipeline import compile_program, load_graph, lower
from compiler.runtime.artifact import image_bytes, read_image
from compiler.runtime.module import Module
from compiler.schedule.source import NoSource
from compiler.target import native_target
from compiler.workload.reread import reread_inputs
from tests.compiler.frontend.models import model


def product(rows: int = 80, columns: int = 48) -> onnx.ModelProto:
    nodes = [helper.make_node("MatMul", ["x", "z"], ["p"]), helper.make_node("Relu", ["p"], ["y"])]
    return model(nodes, {"x": [rows, 32], "z": [32, columns]}, {}, ["y"])


def turned() -> onnx.ModelProto:
    nodes = [helper.make_node("Gemm", ["x", "z"], ["y"], transA=1, transB=1)]
    return model(nodes, {"x": [32, 80], "z": [64, 32]}, {}, ["y"])


def convolution() -> onnx.ModelProto:
    weight = np.ones((16, 16, 3, 3), np.float32)
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"])]
    return model(nodes, {"x": [1, 16, 16, 16]}, {"w": weight}, ["y"])


def added() -> onnx.ModelProto:
    return model([helper.make_node("Add", ["x", "z"], ["y"])], {"x": [80, 48], "z": [48]}, {}, ["y"])


@pytest.mark.parametrize(
    ("proto", "found"),
    [
        (product(), ("z",)),
        (product(rows=8), ()),  # read too few times
        (product(columns=47), ()),  # most rows begin inside a line anyway
        (turned(), ("x",)),  # its rows are along the result's, and can be lanes
        (convolution(), ()),
        (added(), ()),
    ],
)
def test_reread_inputs(proto: onnx.ModelProto, found: tuple[str, ...]) -> None:
    program = lower(load_graph(proto))
    names = list(program.inputs)
    assert tuple(names[number] for number in reread_inputs(program)) == found


def displaced(array: np.ndarray, offset: int) -> np.ndarray:
    """The same values, so many bytes behind a page's beginning."""
    raw = np.zeros(array.nbytes + 4096 + offset, np.uint8)
    start = -raw.ctypes.data % 4096 + offset
    copy = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def test_results_are_the_same_wherever_inputs_begin() -> None:
    module = compile_program(lower(load_graph(product())), native_target(), 1, NoSource())
    rng = np.random.default_rng(0)
    for _ in range(2):  # the second time with memory that the first one left
        x, z = rng.standard_normal((80, 32), np.float32), rng.standard_normal((32, 48), np.float32)
        outputs = [module.run({"x": x, "z": displaced(z, offset)})["y"] for offset in (0, 4, 16, 32)]
        for other in outputs[1:]:
            np.testing.assert_array_equal(other, outputs[0])
        np.testing.assert_allclose(outputs[0], np.maximum(x @ z, 0), rtol=1e-4, atol=1e-4)


class Watched(Module):
    """Where the second input of the last run was read."""

    read_at: int

    def _give_back(self, context: object) -> None:
        self.read_at = context._held[1].ctypes.data  # type: ignore[attr-defined]
        super()._give_back(context)  # type: ignore[arg-type]


def test_what_begins_inside_a_vector_is_copied_and_nothing_else() -> None:
    image = compile_program(lower(load_graph(product())), native_target(), 1, NoSource()).image
    module = Watched(read_image(image_bytes(image)))
    width = module.target.vector_bytes
    inputs: Mapping[str, np.ndarray] = {"x": np.ones((80, 32), np.float32)}
    for offset in (0, width, 4):
        z = displaced(np.ones((32, 48), np.float32), offset)
        module.run({**inputs, "z": z})
        assert module.read_at % width == 0
        assert (module.read_at == z.ctypes.data) == (offset != 4)
    unwatched = Watched(replace(image, reread=()))
    z = displaced(np.ones((32, 48), np.float32), 4)
    unwatched.run({**inputs, "z": z})
    assert unwatched.read_at == z.ctypes.data
