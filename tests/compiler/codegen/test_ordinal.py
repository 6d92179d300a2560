"""Ordinals: whole numbers in the order of floats; and what is selected by them, in machine code."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from onnx import helper

import luthier
from compiler.choice import default_schedule
from compiler.dtype import DType
from compiler.elementary import ordinal
from compiler.scalar import Load, apply
from compiler.target import native_target
from compiler.workload.ir import Workload
from compiler.workload.leeway import reference_bounds
from tests.compiler.execute import run_native
from tests.compiler.frontend.models import model
from tests.compiler.workloads import at, mapped, operand
from tests.slow import slow

SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1e-45, -1e-45, 1.0, -1.0, 3.4e38, -3.4e38]


def ordinals(points: int, function: str | None = None) -> Workload:
    """`function`: computed first."""
    load = Load("x0", at("s0"))
    x = load if function is None else apply(function, load)
    made = mapped(apply("ordinal", x), (points,), (operand("x0", points),))
    (stage,), (output,) = made.stages, made.outputs
    whole = replace(stage, dtype=DType.I32), replace(output, dtype=DType.I32)
    return replace(made, stages=whole[:1], outputs=whole[1:])


def sweep() -> np.ndarray:
    everywhere = np.arange(0, 2**32, 40_009, dtype=np.uint64).astype(np.uint32).view(np.float32)
    with np.errstate(invalid="ignore"):
        return np.concatenate([everywhere, np.array(SPECIAL, np.float32)])


def test_they_are_in_the_order_of_the_floats() -> None:
    x = sweep()
    found = ordinal(x)
    numbers = x[~np.isnan(x)]
    inside = found[~np.isnan(x)]
    order = np.argsort(numbers, kind="stable")
    assert ((np.diff(inside[order]) > 0) == (np.diff(numbers[order]) > 0)).all()
    assert (found[np.isnan(x)] > inside.max()).all()


@pytest.mark.parametrize("threads", [1, 2])
def test_machine_code_has_the_same(threads: int) -> None:
    x = sweep()
    workload = ordinals(len(x))
    schedule = default_schedule(workload, native_target(), threads)
    np.testing.assert_array_equal(run_native(workload, schedule, {"x0": x}, threads), ordinal(x))


def test_of_what_is_computed_there_are_several_right_ones() -> None:
    """Single precision has another last digit than the reference."""
    x = np.random.default_rng(0).standard_normal(500).astype(np.float32)
    workload = ordinals(len(x), "sigmoid")
    least, most = reference_bounds(workload, {"x0": x})["y0"]
    found = run_native(workload, default_schedule(workload, native_target(), 1), {"x0": x})
    assert (least <= found).all()
    assert (found <= most).all()
    exact, same = reference_bounds(ordinals(len(x)), {"x0": x})["y0"]
    np.testing.assert_array_equal(exact, same)


@pytest.mark.parametrize("largest", [slow(0), 1])
@pytest.mark.parametrize(
    ("shape", "axis", "count"),
    [
        ((2, 700), 1, 90),
        ((900, 3), 0, 300),
        ((1, 2048), 1, 1024),
        ((2, 2500), 1, 90),
        ((3999, 2), 0, 100),
        ((1, 20_001), 1, 700),
    ],
)
def test_elements_by_a_threshold(shape: tuple[int, ...], axis: int, count: int, largest: int) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    x.reshape(-1)[::7] = 0.5  # many are equal
    node = helper.make_node("TopK", ["x", "k"], ["v", "i"], axis=axis, largest=largest)
    known: dict[str, Any] = {"k": np.array([count], np.int64)}
    proto = model([node], {"x": list(shape)}, known, ["v", "i"])
    with closing(luthier.compile(proto, threads=1)) as module:
        found = module.run({"x": x})
    order = np.argsort(-x if largest else x, axis=axis, kind="stable")
    expected = np.take(order, range(count), axis=axis)
    np.testing.assert_array_equal(found["i"], expected)
    np.testing.assert_array_equal(found["v"], np.take_along_axis(x, expected, axis))
