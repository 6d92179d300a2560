"""Any small network: its Program in float64 and its compiled code agree with ONNX Runtime."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from onnx import helper

from compiler.pipeline import compile_program, load_graph, lower, lower_any_size
from compiler.schedule.source import NoSource
from compiler.target import native_target
from compiler.workload.evaluate import evaluate_program
from compiler.workload.program import Program
from compiler.workload.verify import verify_program
from tests.compiler.frontend.models import model as network
from tests.compiler.random_networks import networks
from tests.onnx_runtime import expected_outputs

Arrays = dict[str, np.ndarray]


def check(model: onnx.ModelProto, *, compiled: bool) -> None:
    program = lower(load_graph(model))
    verify_program(program)
    random = np.random.default_rng(0)
    shapes = {name: kind.sizes for name, kind in program.inputs.items()}
    inputs = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    wanted = expected_outputs(model, inputs)
    assert_same(evaluate_program(program, inputs), wanted)
    if compiled:
        assert_same(run_compiled(program, inputs), wanted)


def check_batches(model: onnx.ModelProto) -> None:
    """One compilation runs batches of any size."""
    program = lower_any_size(model)
    with closing(compile_program(program, native_target(), 2, NoSource())) as module:
        for size in (2, 1, 5):
            (given,) = program.inputs.values()
            shape = (size, *(dim.const for dim in given.shape[1:]))
            inputs = {"x": np.random.default_rng(size).standard_normal(shape).astype(np.float32)}
            assert_same(module.run(inputs), expected_outputs(model, inputs))


def run_compiled(program: Program, inputs: Arrays) -> Arrays:
    with closing(compile_program(program, native_target(), 2, NoSource())) as module:
        module.run(inputs)
        return module.run(inputs)  # the memory of the first run is used again


def assert_same(got: Arrays, wanted: Arrays) -> None:
    for name, array in wanted.items():
        assert got[name].shape == array.shape
        scale = max(1.0, float(np.abs(array).max(initial=0.0)))
        np.testing.assert_allclose(got[name], array, rtol=1e-3, atol=1e-4 * scale)


_RELAXED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.filter_too_much]}


def test_strides_that_need_one_part_of_an_interleaved_value() -> None:
    """A transposed convolution interleaves four parts, of different extents; every other row and column is one."""
    random = np.random.default_rng(0)
    kernel = random.standard_normal((2, 1, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("ConvTranspose", ["x", "kernel"], ["apart"], strides=[2, 2]),
        helper.make_node("Relu", ["apart"], ["positive"]),
        helper.make_node("Conv", ["positive", "scale", "bias"], ["y"], strides=[2, 2]),
    ]
    constants = {
        "kernel": kernel,
        "scale": np.full((1, 1, 1, 1), 1.5, np.float32),
        "bias": np.ones(1, np.float32),
    }
    check(network(nodes, {"x": (2, 2, 2, 7)}, constants), compiled=True)


@given(networks())
@settings(max_examples=200, **_RELAXED)
def test_programs_of_random_networks(model: onnx.ModelProto) -> None:
    check(model, compiled=False)


@given(networks())
@settings(max_examples=15, **_RELAXED)
def test_code_of_random_networks(model: onnx.ModelProto) -> None:
    check(model, compiled=True)


@given(networks(batch=True))
@settings(max_examples=10, **_RELAXED)
def test_random_networks_with_an_open_batch(model: onnx.ModelProto) -> None:
    check_batches(model)


@pytest.mark.slow
@given(networks(batch=True))
@settings(max_examples=500, **_RELAXED)
def test_five_hundred_random_networks_with_an_open_batch(model: onnx.ModelProto) -> None:
    check_batches(model)


@pytest.mark.slow
@given(networks())
@settings(max_examples=2_000, **_RELAXED)
def test_code_of_two_thousand_random_networks(model: onnx.ModelProto) -> None:
    check(model, compiled=True)
