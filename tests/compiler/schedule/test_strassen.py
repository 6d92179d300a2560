"""Strassen's algorithm: exact matrices, an equivalent Workload, right machine code for any sizes, samples apart."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product as pairs

import numpy as np
import pytest

from compiler.codegen.kernel import kernels_from_json, kernels_json
from compiler.dtype import DType
from compiler.errors import ScheduleError
from compiler.evaluate import reference_outputs
from compiler.index import Index
from compiler.pipeline import build_kernel
from compiler.scalar import Const, Expr, Load, apply
from compiler.schedule.strassen import CONSTANT, DATA, RESULT, find_product, strassen
from compiler.space.rules import build_space
from compiler.space.space import SearchSpace, Value
from compiler.space.strassen_phases import StrassenPhases, can_cut
from compiler.target import PRESETS, native_target
from compiler.workload.ir import Workload
from tests.compiler.drawn import drawn
from tests.compiler.execute import relative_error, run_interpreted, run_native
from tests.compiler.workloads import (
    KINDS,
    anchored,
    at,
    convolution,
    matmul,
    operand,
    product,
    random_operands,
    retyped,
)

LANES = native_target().lanes(4)


def samples(count: int, rows: int, columns: int, summed: int, *, turned: bool = False) -> Workload:
    """Samples times a constant, with a bias, an addend and a ReLU; `turned`: the constant is [columns, summed]."""
    data = Load("x0", at("s0", "s1", "r0"))
    weights = Load("c0", at("s2", "r0") if turned else at("r0", "s2"))
    operands = (
        operand("x0", count, rows, summed),
        operand("x1", count, rows, columns),
        operand("c0", *((columns, summed) if turned else (summed, columns)), constant=True),
        operand("c1", columns, constant=True),
    )

    def finish(value: Expr) -> Expr:
        biased = apply("add", value, Load("c1", at("s2")))
        return apply("max", apply("add", biased, Load("x1", at("s0", "s1", "s2"))), Const(0.0))

    body = apply("mul", data, weights)
    return anchored((count, rows, columns), (summed,), "sum", body, operands, finish)


def strided(size: int, columns: int, summed: int) -> Workload:
    """Every other place of an image: a convolution without a window."""
    data = Load("x0", (Index.of("s0") * 2, Index.of("s1") * 2, Index.of("r0")))
    body = apply("mul", data, Load("c0", (*at("s2", "r0"), Index.of(0))))
    operands = (
        operand("x0", 2 * size, 2 * size, summed),
        operand("c0", columns, summed, 1, constant=True),
    )
    return anchored((size, size, columns), (summed,), "sum", body, operands)


def rewritten(workload: Workload, operands: dict[str, np.ndarray]) -> np.ndarray:
    """The result of the rewritten Workload, in float64."""
    other = strassen(workload, ())
    transformed = {n: t.apply(operands[n].astype(np.float64)) for n, t in other.transforms.items()}
    return reference_outputs(other, {**operands, **transformed})["y0"]


def with_algorithm(space: SearchSpace, rng: random.Random | None = None) -> dict[str, Value]:
    """The usual values with the algorithm, or random ones."""
    if rng is not None:
        return space.values(next(drawn(space, rng, algorithm="strassen")))
    usual = (space.values(a) for a in (space.default, *space.starts))
    return next(values for values in usual if values["algorithm"] == "strassen")


def test_the_matrices_are_exact() -> None:
    rng = random.Random(0)
    one, other = ([[rng.randint(-9, 9) for _ in range(2)] for _ in range(2)] for _ in range(2))
    flat = [[m[i][j] for i, j in pairs(range(2), repeat=2)] for m in (one, other)]
    products = [
        sum(f * x for f, x in zip(a, flat[0], strict=True))
        * sum(f * x for f, x in zip(b, flat[1], strict=True))
        for a, b in zip(DATA, CONSTANT, strict=True)
    ]
    got = [sum(f * p for f, p in zip(row, products, strict=True)) for row in RESULT]
    assert got == [sum(one[i][k] * other[k][j] for k in range(2)) for i, j in pairs(range(2), repeat=2)]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("rows", [6, 7])
def test_the_rewritten_workload_is_equivalent(rows: int, *, turned: bool) -> None:
    workload = samples(2, rows, 10, 6, turned=turned)
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    np.testing.assert_allclose(rewritten(workload, operands), expected, atol=1e-12)


def test_it_applies_to_places_of_an_image() -> None:
    workload = strided(5, 10, 6)
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    np.testing.assert_allclose(rewritten(workload, operands), expected, atol=1e-12)


@pytest.mark.parametrize(("count", "rows"), [(1, 48), (1, 51), (3, 49)])
@pytest.mark.parametrize("threads", [1, 2])
def test_machine_code_agrees_with_the_reference(count: int, rows: int, threads: int) -> None:
    workload = samples(count, rows, 4 * LANES, 130)
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    space, rng = build_space(workload, native_target(), threads), random.Random(rows)
    for values in (with_algorithm(space), *(with_algorithm(space, rng) for _ in range(4))):
        got = run_native(workload, space.build(values), operands, threads)
        assert relative_error(got, expected) < 2e-6, values


def test_the_interpreter_agrees_too() -> None:
    workload = samples(1, 49, 64, 128, turned=True)
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    space = build_space(workload, PRESETS["x86-64-v4"], 1)
    got = run_interpreted(workload, space.build(with_algorithm(space)), operands)
    assert relative_error(got, expected) < 2e-6


def test_samples_do_not_reach_each_other() -> None:
    """Rows are summed in pairs: of one sample only."""
    workload = samples(2, 49, 4 * LANES, 128)
    operands = random_operands(workload)
    space = build_space(workload, native_target(), 1)
    schedule = space.build(with_algorithm(space))
    alone = run_native(workload, schedule, operands)
    operands["x0"][0] = np.nan
    found = run_native(workload, schedule, operands)
    assert np.isnan(found[0]).all()
    np.testing.assert_array_equal(found[1], alone[1])


@pytest.mark.parametrize(
    "workload",
    [
        pytest.param(matmul(48, 64, 128), id="rows may be samples"),
        pytest.param(product(2, 48, 64, 128), id="no constant"),
        pytest.param(convolution(8, 64, 64, 3), id="windows"),
        pytest.param(KINDS["row_sum"], id="no product"),
        pytest.param(retyped(samples(1, 48, 64, 128), DType.F64), id="another type"),
    ],
)
def test_it_applies_to_products_of_samples_and_a_constant_only(workload: Workload) -> None:
    assert find_product(workload) is None
    with pytest.raises(ScheduleError, match="times a constant one"):
        strassen(workload, ())
    assert not can_cut(workload, native_target())


def test_odd_sides_of_the_constant_are_refused() -> None:
    for columns, summed in ((10, 7), (9, 6)):
        with pytest.raises(ScheduleError, match=f"{summed} x {columns} cannot be"):
            strassen(samples(1, 6, columns, summed), ())


@pytest.mark.parametrize("sizes", [(47, 64, 128), (48, 32, 128), (48, 64, 126), (48, 72, 128), (48, 64, 129)])
def test_small_blocks_are_no_choice(sizes: tuple[int, int, int]) -> None:
    v4 = PRESETS["x86-64-v4"]
    assert can_cut(samples(1, 48, 64, 128), v4)
    assert can_cut(samples(4, 14, 64, 128), v4), "rows of several blocks count together"
    assert not can_cut(samples(8, 10, 64, 128), v4), "too few rows beside each other"
    assert not can_cut(samples(1, *sizes), v4)


def test_its_three_phases_are_shared_out_one_after_the_other() -> None:
    workload, v4 = samples(1, 64, 256, 256), PRESETS["x86-64-v4"]
    space = build_space(workload, v4, 2)
    kernel = build_kernel(workload, space.build(with_algorithm(space)), v4)
    assert len(kernel.phases) == 3
    assert all(phase.parallel_extent > 1 for phase in kernel.phases)
    scratch = {p.name: p.shape for p in kernel.params if p.role == "scratch"}
    assert kernels_from_json(*kernels_json([kernel])) == [kernel]
    # 32 rows of 8 lines would begin at the same place of a page in every one of the seven.
    assert scratch == {"blocks_buffer": (7, 1, 33, 144), "product_buffer": (7, 1, 33, 144)}


def test_it_is_the_default_where_the_products_outweigh_what_is_summed() -> None:
    near = replace(PRESETS["x86-64-v4"], cpu="znver5", l3_bytes=32 << 20)

    def default(workload: Workload) -> str:
        space = build_space(workload, near, 1)
        return str(space.values(space.default).get("algorithm", "direct"))

    assert default(samples(1, 128, 768, 768)) == "strassen"
    assert default(samples(1, 784, 128, 512)) == "direct"
    assert default(samples(1, 48, 64, 128)) == "direct"
    assert default(samples(1, 1500, 1536, 384)) == "direct", "what is summed leaves the last cache"
    assert default(matmul(128, 768, 768)) == "direct"


def test_errors_are_those_that_were_foretold() -> None:
    workload = samples(1, 96, 256, 768)
    operands = random_operands(workload)
    space = build_space(workload, native_target(), 1)
    got = run_native(workload, space.build(with_algorithm(space)), operands)
    error = relative_error(got, reference_outputs(workload, operands)["y0"])
    assert error < StrassenPhases(workload, native_target()).error < 20 * error
