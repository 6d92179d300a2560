"""Loads whose lanes are a few elements apart, loads that only some lanes may make, and stores of short vectors."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from compiler.codegen.texts import nest_ir
from compiler.index import Index
from compiler.pipeline import build_nest
from compiler.scalar import Bound, Const, Guard, Load
from compiler.space.rules import build_space
from compiler.target import PRESETS, native_target
from compiler.workload.ir import Workload
from tests.compiler.execute import run_native
from tests.compiler.workloads import anchored, at, operand, random_operands

ROWS = 3


def window(length: int, taps: int, stride: int, pad: int) -> Workload:
    """The largest of `taps` neighbours along the contiguous axis, -1 beyond the ends."""
    out = (length + 2 * pad - taps) // stride + 1
    place = Index.of("s1") * stride + "r0" - pad
    read = Load("x0", (Index.of("s0"), place))
    body = Guard((Bound(place, 0, length),), read, Const(-1.0)) if pad else read
    return anchored((ROWS, out), (taps,), "max", body, (operand("x0", ROWS, length),))


def expected(x: np.ndarray, taps: int, stride: int, pad: int) -> np.ndarray:
    padded = np.pad(x, ((0, 0), (pad, pad)), constant_values=-1.0)
    return np.lib.stride_tricks.sliding_window_view(padded, taps, axis=1)[:, ::stride].max(axis=-1)


@pytest.mark.parametrize("stride", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    ("length", "taps", "pad"), [(64, 2, 0), (53, 3, 1), (17, 4, 2), (9, 3, 1), (200, 5, 2)]
)
def test_windows_of_any_stride_and_border(length: int, taps: int, stride: int, pad: int) -> None:
    workload = window(length, taps, stride, pad)
    operands = random_operands(workload)
    space = build_space(workload, native_target(), 1)
    rng = random.Random(0)
    for assignment in {space.default, *(space.sample(rng) for _ in range(6))}:
        got = run_native(workload, space.schedule(assignment), operands)
        np.testing.assert_array_equal(
            got, expected(operands["x0"], taps, stride, pad), str(space.values(assignment))
        )


@pytest.mark.parametrize("target", sorted(t.name for t in PRESETS.values() if t.vector_bytes > 4))
@pytest.mark.parametrize("stride", [1, 2, 4])
def test_lanes_up_to_four_apart_are_never_read_one_by_one(target: str, stride: int) -> None:
    workload = window(1024, 3, stride, 1)
    space = build_space(workload, PRESETS[target], 1)
    ir = nest_ir(build_nest(workload, space.schedule(space.default)), PRESETS[target])
    assert "load float," not in ir
    assert "masked.load" in ir


@pytest.mark.parametrize("columns", [*range(1, 20), 31, 33])
def test_short_vectors_are_stored_up_to_their_last_lane(columns: int) -> None:
    """Without masked stores an edge is written in pieces; what lies behind it stays as it was."""
    workload = anchored((2, columns), (3,), "sum", Load("x0", at("r0", "s1")), (operand("x0", 3, columns),))
    target = replace(
        native_target(), features=tuple(f for f in native_target().features if "avx512" not in f)
    )
    operands = random_operands(workload)
    space = build_space(workload, target, 1)
    got = run_native(workload, space.schedule(space.default), operands, target=target)
    np.testing.assert_allclose(got, np.broadcast_to(operands["x0"].sum(axis=0), (2, columns)), rtol=1e-5)


@pytest.mark.parametrize("columns", [11, 27])
def test_edges_use_masked_stores_only_where_the_target_has_them(columns: int) -> None:
    workload = anchored((2, columns), (3,), "sum", Load("x0", at("r0", "s1")), (operand("x0", 3, columns),))
    for name, masked in (("x86-64-v3", False), ("x86-64-v4", True), ("aarch64-neoverse-n1", False)):
        space = build_space(workload, PRESETS[name], 1)
        ir = nest_ir(build_nest(workload, space.schedule(space.default)), PRESETS[name])
        assert ("masked.store" in ir) is masked, name
