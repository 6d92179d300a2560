"""Whole models in alternation, from artifacts that a real compile wrote."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from compiler.errors import InputError, MeasureError
from compiler.pipeline import compile_program, load_graph, lower
from compiler.schedule.source import NoSource
from compiler.target import native_target
from tests.workers.children import children
from workers.comparing import MIN_ROUNDS, relative_error
from workers.end_to_end import compare_models


def model(scale: float) -> bytes:
    weights = np.linspace(-1, 1, 6 * 20, dtype=np.float32).reshape(6, 20) * np.float32(scale)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])],
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 20])],
        [numpy_helper.from_array(weights, "w")],
    )
    opset = [helper.make_opsetid("", 17)]
    proto = helper.make_model(graph, opset_imports=opset, ir_version=9)
    onnx.checker.check_model(proto)
    content: bytes = proto.SerializeToString()
    return content


def artifact(scale: float = 1.0, threads: int = 1) -> bytes:
    program = lower(load_graph(model(scale)))
    return compile_program(program, native_target(), threads, NoSource()).to_bytes()


@pytest.fixture(scope="module")
def plain() -> bytes:
    return artifact()


def test_models_are_timed_in_turn_and_compared_with_the_first(plain: bytes) -> None:
    before = children()
    found = compare_models(
        {"untuned": plain, "tuned": plain, "wrong": artifact(1.5)},
        threads=1,
        seed=0,
        seconds=0.1,
        timeout_s=60,
    )
    assert list(found) == ["untuned", "tuned", "wrong"]
    for compared in found.values():
        assert len(compared["samples_s"]) >= MIN_ROUNDS
        assert min(compared["samples_s"]) > 0
        rounds = {len(times) for times in compared["kernels_s"].values()}
        assert len(rounds) == 1
        assert rounds.pop() >= MIN_ROUNDS
        inside = sum(min(times) for times in compared["kernels_s"].values())
        assert inside > 0
    assert found["untuned"]["kernels_s"].keys() == found["tuned"]["kernels_s"].keys()
    assert found["untuned"]["max_relative_error"] == found["tuned"]["max_relative_error"] == 0
    assert found["wrong"]["max_relative_error"] == pytest.approx(0.5, rel=1e-4)
    assert children() == before


def test_a_reference_is_compared_with_and_not_timed(plain: bytes) -> None:
    found = compare_models(
        {"wrong": artifact(1.5)},
        threads=1,
        seed=0,
        seconds=0.05,
        timeout_s=60,
        reference=plain,
        kernels=False,
    )
    assert list(found) == ["wrong"]
    assert found["wrong"]["kernels_s"] == {}
    assert found["wrong"]["max_relative_error"] == pytest.approx(0.5, rel=1e-4)


def test_what_cannot_be_compared_is_an_input_error(plain: bytes, tmp_path: Path) -> None:
    with pytest.raises(InputError):
        compare_models({"a": b"no artifact"}, threads=1, seed=0, seconds=0.1, timeout_s=60)
    with pytest.raises(InputError, match="threads"):
        compare_models({"a": plain}, threads=2, seed=0, seconds=0.1, timeout_s=60)
    with pytest.raises(InputError, match="at least one"):
        compare_models({}, threads=1, seed=0, seconds=0.1, timeout_s=60)


def test_a_comparison_that_takes_too_long_is_a_measure_error(plain: bytes) -> None:
    with pytest.raises(MeasureError, match="timeout"):
        compare_models({"a": plain}, threads=1, seed=0, seconds=60, timeout_s=1.0)


def test_the_error_is_relative_and_infinite_where_only_one_is_finite() -> None:
    expected = {"y": np.array([1.0, -4.0, np.inf])}
    assert relative_error({"y": np.array([1.0, -3.0, np.inf])}, expected) == 0.25
    assert relative_error({"y": np.array([1.0, np.nan, np.inf])}, expected) == math.inf
    assert relative_error({"y": np.array([1.0, -4.0, 5.0])}, expected) == math.inf
