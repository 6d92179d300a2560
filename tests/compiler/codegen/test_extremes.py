"""The larger and the smaller of two floats: NaN of either side stays, whichever instructions do it."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from compiler.choice import default_schedule
from compiler.codegen.texts import nest_assembly
from compiler.pipeline import build_nest
from compiler.scalar import Load, apply
from compiler.target import PRESETS, Target, native_target
from compiler.workload.ir import Workload
from tests.compiler.execute import run_native
from tests.compiler.workloads import at, mapped, operand, windows

V3, V4 = PRESETS["x86-64-v3"], PRESETS["x86-64-v4"]
SIGNALLING, NEGATIVE = 0x7F800001, 0xFFC00000
NANS = np.array([0x7FC00000, NEGATIVE, SIGNALLING], np.uint32).view(np.float32)
NUMBERS = np.array([0.0, 1.0, -1.0, 3e38, -3e38, 1e-45, np.inf, -np.inf], np.float32)
PAIRS = np.array(list(itertools.product([*NUMBERS, *NANS], repeat=2)), np.float32)


def both(op: str, points: int) -> Workload:
    x, y = (Load(name, at("s0")) for name in ("x0", "x1"))
    return mapped(apply(op, x, y), (points,), (operand("x0", points), operand("x1", points)))


def targets() -> list[Target]:
    """This machine with its own vectors, with shorter ones, and as if it had no AVX-512."""
    native = native_target()
    shorter = [replace(native, vector_bytes=b) for b in (16, 32) if b < native.vector_bytes]
    features = tuple(f for f in native.features if not f.startswith("avx512"))
    older = [] if features == native.features else [replace(shorter[-1], features=features)]
    return [native, *shorter, *older]


def name(target: Target) -> str:
    return f"{target.vector_bytes} bytes, {len(target.features)} features"


@pytest.mark.parametrize("target", targets(), ids=name)
@pytest.mark.parametrize("op", ["max", "min"])
def test_every_pair_of_kinds_of_numbers(op: str, target: Target) -> None:
    x, y = (np.ascontiguousarray(side) for side in PAIRS.T)
    workload = both(op, len(x))
    with np.errstate(invalid="ignore"):
        expected = {"max": np.maximum, "min": np.minimum}[op](x, y)
    got = run_native(workload, default_schedule(workload, target, 1), {"x0": x, "x1": y}, target=target)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("target", targets(), ids=name)
@pytest.mark.parametrize("nan", NANS[:2], ids=["positive", "negative"])
@pytest.mark.parametrize("place", [0, 1, 2, 40, 41, 50, 51, 99])
def test_a_pooling_keeps_nan_wherever_it_is(place: int, nan: np.float32, target: Target) -> None:
    workload = windows(10, 16, reducer="max", outside=float("-inf"))
    data = np.full((10, 10, 16), -np.inf, np.float32)
    data.reshape(100, 16)[place, 3] = nan
    (operand,) = workload.operands
    given = {operand.name: data.reshape(workload.buffers[operand.name].sizes)}
    got = run_native(workload, default_schedule(workload, target, 1), given, target=target)
    row, column = divmod(place, 10)
    near = np.zeros((10, 10), bool)
    near[max(row - 1, 0) : row + 2, max(column - 1, 0) : column + 2] = True
    assert (np.isnan(got.reshape(10, 10, 16)[..., 3]) == near).all()


def test_two_instructions_where_classes_of_numbers_can_be_told() -> None:
    workload = windows(28, 64, reducer="max", outside=float("-inf"))
    code = nest_assembly(build_nest(workload, default_schedule(workload, V4, 1)), V4)
    assert "vfixupimmps" in code
    assert "vcmpunordps" not in code
    first = code.count("vmaxps")
    assert code.count("vfixupimmps") == first, "a maximum with -inf is none"


def test_one_comparison_for_two_elements_where_avx_stands_alone() -> None:
    workload = windows(28, 64, reducer="max", outside=float("-inf"))
    code = nest_assembly(build_nest(workload, default_schedule(workload, V3, 1)), V3)
    assert "vblendvps" not in code
    compared, taken = code.count("vcmpunordps"), code.count("vmaxps")
    assert compared == code.count("vorps")
    assert compared <= 0.8 * taken, "borders have extremes of two elements, the inside of three"
