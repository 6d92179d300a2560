"""A long sum of products in blocks computes the same, and is the default where a panel is too large for the cache."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from compiler.evaluate import reference_outputs
from compiler.pipeline import build_kernel
from compiler.runtime.loader import LoadedKernel
from compiler.scalar import Load, apply
from compiler.schedule.steps import RFactor
from compiler.space.default_tile import default_values
from compiler.space.depth import depths
from compiler.space.register_tile import RegisterTile
from compiler.space.rules import build_space
from compiler.space.space import SearchSpace, Value, number
from compiler.symbol import Symbol
from compiler.target import LINE_BYTES, PRESETS, native_target
from compiler.workload.ir import Workload
from compiler.workload.specialise import specialise
from tests.compiler.execute import native_outputs, stored_error
from tests.compiler.symbolic import symbolic_rows
from tests.compiler.workloads import anchored, at, convolution, depthwise, matmul, operand, random_operands


def choices(space: SearchSpace, name: str) -> tuple[Value, ...]:
    return next((knob.choices for knob in space.knobs if knob.name == name), ())


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("rows", "vectors"), [(4, 3), (7, 1), (1, 2)])
def test_blocks_of_any_tile_agree_with_the_reference(rows: int, vectors: int, threads: int) -> None:
    workload = matmul(45, 59, 384)  # no tile divides the rows or the columns
    space = build_space(workload, native_target(), threads)
    values = {
        **space.values(space.default),
        "algorithm": "direct",
        "rows": rows,
        "vectors": vectors,
        "order": "outside",
        "depth": 128,
    }
    assert space.legal(values)
    schedule = space.build(values)
    assert any(isinstance(step, RFactor) for step in schedule.steps)
    operands = random_operands(workload)
    got = native_outputs(workload, schedule, operands, threads)
    assert stored_error(workload, got, reference_outputs(workload, operands)) < 1e-5


def test_depths_divide_the_sum() -> None:
    found = choices(build_space(matmul(64, 64, 3 * 250), native_target(), 1), "depth")
    assert found[-1] == 750
    assert len(found) > 1
    assert all(isinstance(d, int) and 750 % d == 0 for d in found)


def test_short_prime_or_depthwise_sums_have_no_blocks() -> None:
    for workload in (matmul(64, 64, 64), matmul(64, 64, 2039), matmul(4, 64, 3072), depthwise(8, 16)):
        assert not choices(build_space(workload, native_target(), 1), "depth")


def test_images_whose_sums_no_near_cache_holds_have_no_blocks() -> None:
    assert choices(build_space(convolution(8, 256, 16, 3), native_target(), 1), "depth")
    assert not choices(build_space(convolution(128, 256, 16, 3), native_target(), 1), "depth")


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("rows", "vectors"), [(4, 3), (7, 1), (1, 2)])
def test_windows_are_cut_along_their_longest_sum(rows: int, vectors: int, threads: int) -> None:
    workload = convolution(7, 128, 59, 3)
    space = build_space(workload, native_target(), threads)
    depth = choices(space, "depth")[0]
    values = {
        **space.values(space.default),
        "algorithm": "direct",
        "rows": rows,
        "vectors": vectors,
        "order": "outside",
        "depth": depth,
    }
    assert isinstance(depth, int)
    assert depth % 9 == 0
    assert space.legal(values)
    operands = random_operands(workload)
    got = native_outputs(workload, space.build(values), operands, threads)
    assert stored_error(workload, got, reference_outputs(workload, operands)) < 1e-5


@pytest.mark.parametrize(
    ("rows", "k", "whole"),
    [
        pytest.param(128, 1024, True, id="a sixth of the second cache"),
        pytest.param(128, 3072, False, id="half of it, and few rows to fetch the next one in"),
        pytest.param(512, 3072, True, id="half of it, and many rows"),
        pytest.param(512, 8192, False, id="more than all of it"),
    ],
)
def test_a_panel_too_large_for_the_second_cache_is_cut(rows: int, k: int, *, whole: bool) -> None:
    target = replace(PRESETS["x86-64-v4"], l2_bytes=2 << 20)
    space = build_space(matmul(rows, 256, k), target, 1)
    assert (space.values(space.default)["depth"] == k) is whole


@pytest.mark.parametrize(
    ("x", "k", "whole"),
    [
        pytest.param(("s0", "r0"), 2048, True, id="one after the other"),
        pytest.param(("r0", "s0"), 1024, True, id="a line each, few"),
        pytest.param(("r0", "s0"), 2048, False, id="a line each, many"),
    ],
)
def test_products_that_lie_in_lines_of_their_own_are_fewer(
    x: tuple[str, str], k: int, *, whole: bool
) -> None:
    target = replace(PRESETS["x86-64-v4"], l2_bytes=1 << 20)
    space = build_space(_places(x, k), target, 1)
    assert (space.values(space.default)["depth"] == k) is whole


def test_lines_of_products_stay_in_the_first_cache_for_the_rows_to_come() -> None:
    v3 = replace(PRESETS["x86-64-v3"], l2_bytes=512 << 10)
    space = build_space(_places(("r0", "s0"), 2048, places=196, columns=1024), v3, 1)
    values = space.values(space.default)
    depth, vectors = values["depth"], values["vectors"]
    assert isinstance(depth, int)
    assert isinstance(vectors, int)
    assert depth * (vectors * v3.vector_bytes + LINE_BYTES) <= v3.l1_bytes


def _places(x: tuple[str, str], k: int, places: int = 49, columns: int = 512) -> Workload:
    """As where a 1x1 convolution reads an image: place by place, or channel by channel."""
    shape = (places, k) if x[0] == "s0" else (k, places)
    body = apply("mul", Load("x0", at(*x)), Load("c0", at("s1", "r0")))
    operands = (operand("x0", *shape), operand("c0", columns, k, constant=True))
    return anchored((places, columns), (k,), "sum", body, operands)


@pytest.mark.parametrize("threads", [1, 2])
def test_blocks_serve_any_number_of_rows(threads: int) -> None:
    rows = replace(symbolic_rows(matmul(64, 40, 256)), symbols=(Symbol("n0", 1, 512, (64,)),))
    space = build_space(rows, native_target(), threads)
    values = {**space.values(space.default), "depth": 128, "order": "outside"}
    if threads > 1:
        values["parallel"] = 1
    assert space.legal(values)
    kernel = build_kernel(rows, space.build(values), native_target())
    loaded = LoadedKernel(kernel, threads)
    try:
        for n in (1, 5, 64, 170):
            static = specialise(rows, {"n0": n})
            operands = random_operands(static, seed=n)
            got = {o.name: np.full(o.sizes, np.nan, np.float32) for o in static.outputs}
            arrays = {
                p.name: operands[p.name] if p.packing is None else p.packing.apply(operands[p.name])
                for p in kernel.params
                if p.role != "output"
            } | got
            loaded.run([arrays[p.name].ctypes.data for p in kernel.params], [n])
            assert stored_error(static, got, reference_outputs(static, operands)) < 1e-5
    finally:
        loaded.close()


def test_a_window_is_summed_whole_and_no_more_loops_are_shared_than_there_are_threads_for() -> None:
    workload = convolution(28, 16, 32, 3)
    tile = RegisterTile(workload, *workload.stages, native_target(), 2)
    assert depths(tile) == (9 * 16,)
    values = default_values(tile)
    assert values["depth"] == 9 * 16
    outer = tile.loops_by_order(values)[str(values["order"])]
    assert number(values, "parallel") < len(outer)
