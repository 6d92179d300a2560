"""Elementary functions in machine code against float64: errors in ulp over all exponents, and specials."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from compiler.choice import default_schedule
from compiler.codegen.texts import nest_assembly
from compiler.dtype import DType
from compiler.frontend.powers import power
from compiler.pipeline import build_nest
from compiler.scalar import Const, Expr, Load, apply
from compiler.scalar_ops import OPS
from compiler.target import PRESETS, Target, native_target
from compiler.workload.ir import Workload
from tests.compiler.execute import run_interpreted, run_native
from tests.compiler.workloads import at, mapped, operand

SINGLE = ("exp", "log", "tanh", "sigmoid", "erf", "rsqrt", "inverse_fourth_root")
WAVES = ("sin", "cos", "tan")
ROUNDED = ("asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh")
UNARY = (*SINGLE, *WAVES, *ROUNDED)
ROOTS = {"rsqrt": 2.0, "inverse_fourth_root": 2.0}
LIMITS = {"exp": 1.0, "log": 1.0, "tanh": 5.0, "sigmoid": 7.0, "erf": 6.0, **ROOTS}
LIMITS |= dict.fromkeys((*WAVES, *ROUNDED), 0.51)
"""In single precision; what is computed in double precision is rounded once."""
DOUBLE_LIMITS = {"exp": 1.0, "log": 1.0, "erf": 4.0, "sigmoid": 2.0, **ROOTS, "sinh": 3.0, "cosh": 3.0}
SMALLEST = 2.0**-126
WITHOUT_FMA = Target(
    **{**PRESETS["x86-64-v3"].__dict__, "features": ("sse4.1",), "cpu": "nehalem", "vector_bytes": 16}
)


def call(op: str, points: int) -> Workload:
    loads = [Load(f"x{i}", at("s0")) for i in range(OPS[op].arity)]
    return mapped(apply(op, *loads), (points,), tuple(operand(f"x{i}", points) for i in range(len(loads))))


def run(op: str, *arrays: np.ndarray, target: Target | None = None) -> np.ndarray:
    workload = call(op, arrays[0].size)
    schedule = default_schedule(workload, target or native_target(), 1)
    operands = {f"x{i}": a for i, a in enumerate(arrays)}
    return run_native(workload, schedule, operands, target=target)


def known_to_be_exact(op: str, x: np.ndarray) -> np.ndarray:
    """Arguments for which the function is right in all digits: those of waves have an end."""
    return x[~(np.abs(x) > 2.0**30)] if op in WAVES else x


def sweep() -> np.ndarray:
    """Over a million floats: every sign and exponent, NaNs and infinities; and more where functions bend."""
    everywhere = np.arange(0, 2**32, 4001, dtype=np.uint64).astype(np.uint32).view(np.float32)
    special = [
        0.0,
        -0.0,
        math.inf,
        -math.inf,
        math.nan,
        1.0,
        -1.0,
        SMALLEST,
        88.72284,
        -87.33655,
        1e-45,
        3.4e38,
    ]
    bends = [np.linspace(-a, a, 150_001) for a in (1.0, 12.0, 110.0)]
    with np.errstate(invalid="ignore"):
        return np.concatenate([everywhere, *bends, special]).astype(np.float32)


def ulps(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Distance in units of the last place of the exact value; below the normal numbers in units of the smallest."""
    with np.errstate(all="ignore"):
        _, exponent = np.frexp(exact)
        unit = np.ldexp(1.0, np.maximum(exponent, -125) - 24)
        distance = np.abs(got.astype(np.float64) - exact) / unit
        same = (got == exact.astype(np.float32)) | (np.isnan(got) & np.isnan(exact))
    return np.where(same, 0.0, distance)


@pytest.mark.parametrize("op", UNARY)
def test_the_error_is_what_the_docstring_says(op: str) -> None:
    x = known_to_be_exact(op, sweep())
    with np.errstate(all="ignore"):
        exact = OPS[op].evaluate(x.astype(np.float64))
    distance = ulps(run(op, x), exact)
    if op == "sigmoid":
        distance[np.abs(exact) < SMALLEST] = 0.0
    if op in ROOTS:
        distance[np.abs(x) < SMALLEST] = 0.0
    worst = int(np.nanargmax(np.where(np.isnan(distance), np.inf, distance)))
    assert distance[worst] <= LIMITS[op], f"{op}({x[worst]!r}): {distance[worst]} ulp"


@pytest.mark.parametrize("op", UNARY)
def test_targets_without_fused_multiply_add(op: str) -> None:
    if not WITHOUT_FMA.is_native:
        pytest.skip("not an x86 processor")
    x = known_to_be_exact(op, sweep()[::7].copy())
    x = x[~(np.abs(x) > 1e6)] if op in WAVES else x
    with np.errstate(all="ignore"):
        exact = OPS[op].evaluate(x.astype(np.float64))
    distance = ulps(run(op, x, target=WITHOUT_FMA), exact)
    distance[(np.abs(exact) < SMALLEST) | (np.abs(x) < SMALLEST)] = 0.0
    assert np.max(distance) <= 2 * LIMITS[op]


def double_sweep() -> np.ndarray:
    rng = np.random.default_rng(0)
    everywhere = rng.integers(0, 2**64, 100_000, dtype=np.uint64).view(np.float64)
    bends = [np.linspace(-a, a, 20_001) for a in (1.0, 12.0, 800.0)]
    special = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 5e-324, 2.0**-1022, 1.7e308, 710.4]
    return np.concatenate([everywhere, *bends, special])


def in_double(workload: Workload) -> Workload:
    (stage,), (given,), (output,) = workload.stages, workload.operands, workload.outputs
    return replace(
        workload,
        operands=(replace(given, dtype=DType.F64),),
        outputs=(replace(output, dtype=DType.F64),),
        stages=(replace(stage, dtype=DType.F64),),
    )


@pytest.mark.parametrize("op", UNARY)
def test_double_precision(op: str) -> None:
    """Against the C library, which is within an ulp; only normal results, and waves of moderate arguments."""
    x = double_sweep()
    x = x[~(np.abs(x) > 1e6)] if op in WAVES else x
    workload = in_double(mapped(apply(op, X), (x.size,), (operand("x0", x.size),)))
    got = run_native(workload, default_schedule(workload, native_target(), 1), {"x0": x})
    with np.errstate(all="ignore"):
        exact = OPS[op].evaluate(x)
        unit = np.spacing(np.maximum(np.abs(exact), 2.0**-1021))
        distance = np.abs(got - exact) / unit
    same = (got == exact) | (np.isnan(got) & np.isnan(exact))
    distance = np.where(same, 0.0, distance)
    worst = int(np.argmax(np.where(np.isnan(distance), np.inf, distance)))
    assert distance[worst] <= DOUBLE_LIMITS.get(op, 4.0), (
        f"{op}({x[worst]!r}): {got[worst]} not {exact[worst]}"
    )


def evaluated(body: Expr, *arrays: np.ndarray, target: Target | None = None) -> np.ndarray:
    operands = {f"x{i}": a for i, a in enumerate(arrays)}
    workload = mapped(body, arrays[0].shape, tuple(operand(name, arrays[0].size) for name in operands))
    schedule = default_schedule(workload, target or native_target(), 1)
    return run_native(workload, schedule, operands, target=target)


@pytest.fixture(params=["x86-64-v3", "x86-64-v4", "native"])
def machine(request: pytest.FixtureRequest) -> Target:
    """Targets with other forms of exponentials: with a table of powers, and without."""
    target = native_target() if request.param == "native" else PRESETS[request.param]
    if not target.is_native:
        pytest.skip("another machine's code")
    return target


X, Y = Load("x0", at("s0")), Load("x1", at("s0"))


def test_an_exponential_of_what_is_at_most_0_is_as_good_down_to_the_normal_numbers() -> None:
    x = sweep()
    body = apply("exp", apply("min", X, Const(0.0)))
    got, exact = evaluated(body, x), np.exp(np.minimum(x, 0).astype(np.float64))
    normal = ~(exact < SMALLEST)
    assert np.max(ulps(got, exact)[normal]) <= LIMITS["exp"]
    assert np.all(np.abs(got - exact)[~normal] <= SMALLEST)
    assert np.all(got[x < -88] == 0)


def test_an_exponential_of_a_rounded_difference_is_that_of_its_neighbour(machine: Target) -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-100, 87, 300_000).astype(np.float32)
    y = rng.uniform(-0.5, 0.5, x.size).astype(np.float32)
    difference = x - y
    exact = np.exp(difference.astype(np.float64))
    for argument in (apply("sub", X, Y), apply("at_most", apply("sub", X, Y), Const(88.3))):
        distance = ulps(evaluated(apply("exp", argument), x, y, target=machine), exact)
        normal = exact > SMALLEST
        # 2^-28 of the argument, in units of 2^-24.
        assert np.all((distance <= 3.0 + np.abs(difference) / 16)[normal])


def test_an_exponential_of_a_rounded_result_keeps_nan_of_any_kind(machine: Target) -> None:
    """The scale of a NaN is made of bits that a NaN may have in any way."""
    bits = np.array([0x7FC00000, 0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001, 0xFFC12345], np.uint32)
    x = bits.view(np.float32).repeat(64)
    for argument in (apply("sub", X, Const(0.5)), apply("at_most", apply("sub", X, Const(0.5)), Const(0.0))):
        assert np.all(np.isnan(evaluated(apply("exp", argument), x, target=machine)))


def test_an_exponential_of_a_rounded_result_ends_in_0(machine: Target) -> None:
    """Denormal numbers would slow down whoever multiplies by them: hardly any are left."""
    x = -np.concatenate([np.linspace(87, 105, 100_001), np.geomspace(105, 3e38, 1000), [math.inf]]).astype(
        np.float32
    )
    argument = apply("at_most", apply("sub", X, Const(0.0)), Const(0.0))
    got = evaluated(apply("exp", argument), x, target=machine)
    assert np.all((got == 0) | (got >= 0.7 * SMALLEST))
    assert np.all(got[x < -88] == 0)
    assert np.all(got[x > -87.33] > 0)


@pytest.mark.parametrize("scale", [2**-0.5, -1.7, 1e-30, 1e30])
def test_a_scaled_error_function(scale: float) -> None:
    x = sweep()
    with np.errstate(all="ignore"):
        exact = OPS["erf"].evaluate(x.astype(np.float64) * float(np.float32(scale)))
    distance = ulps(evaluated(apply("erf", apply("mul", X, Const(scale))), x), exact)
    distance[np.abs(exact) < SMALLEST] = 0.0
    assert np.max(distance) <= LIMITS["erf"]


def test_an_error_function_never_passes_1_and_reaches_it() -> None:
    x = np.concatenate([np.linspace(3.5, 4.5, 300_001), np.geomspace(4.0, 3e38, 10_001), [math.inf]])
    x = x.astype(np.float32)
    got = run("erf", x)
    assert np.all(got <= 1)
    assert np.all(got[x > 4] == 1)
    np.testing.assert_array_equal(run("erf", -x), -got)


def test_a_product_with_a_sigmoid_is_one_quotient(machine: Target) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.uniform(-80, 80, 100_000).astype(np.float32) for _ in range(2))
    exact = x.astype(np.float64) / (1 + np.exp(-y.astype(np.float64)))
    for body in (apply("mul", X, apply("sigmoid", Y)), apply("mul", apply("sigmoid", Y), X)):
        assert np.max(ulps(evaluated(body, x, y, target=machine), exact)) <= LIMITS["sigmoid"]


def test_a_sum_of_1_and_a_tangent_is_exact_at_its_ends_and_elsewhere_as_good_as_its_rounding(
    machine: Target,
) -> None:
    x = np.random.default_rng(0).uniform(-12, 12, 300_000).astype(np.float32)
    tangent = apply("tanh", X)
    for body in (apply("add", Const(1.0), tangent), apply("add", tangent, Const(1.0))):
        got = evaluated(body, x, target=machine)
        assert np.max(np.abs(got - (1 + np.tanh(x.astype(np.float64))))) <= 2.1e-7
        ends = np.array([-math.inf, -20.0, -0.0, 0.0, 20.0, math.inf, math.nan, 1e30], np.float32)
        np.testing.assert_array_equal(
            evaluated(body, ends, target=machine), np.array([0, 0, 1, 1, 2, 2, math.nan, 2], np.float32)
        )


@pytest.mark.parametrize("exponent", [-0.25, -0.5, -0.75, -1.5, -2.25, 0.75])
def test_powers_with_roots(exponent: float) -> None:
    x = np.exp(np.random.default_rng(0).uniform(-30, 30, 100_000)).astype(np.float32)
    exact = x.astype(np.float64) ** exponent
    assert np.max(ulps(evaluated(power(X, exponent), x), exact)) <= 2 + 4 * abs(exponent)
    ends = np.array([0.0, math.inf] * 8, np.float32)
    with np.errstate(divide="ignore"):
        np.testing.assert_array_equal(evaluated(power(X, exponent), ends), ends**exponent)


SPECIALS = (0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 1e30, 2.5, math.inf, -math.inf, math.nan)


@pytest.mark.parametrize("target", [None, WITHOUT_FMA], ids=["native", "without_fma"])
def test_pow(target: Target | None) -> None:
    if target is not None and not target.is_native:
        pytest.skip("not an x86 processor")
    rng = np.random.default_rng(0)
    special = np.array([(x, y) for x in SPECIALS for y in SPECIALS], np.float32)
    spread = np.stack([np.exp(rng.uniform(-80, 80, 300_000)), rng.uniform(-2, 2, 300_000)], 1)
    unity = np.stack([rng.uniform(0.5, 2, 300_000), rng.uniform(-300, 300, 300_000)], 1)
    x, y = np.concatenate([special, spread, unity]).astype(np.float32).T.copy()
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.float64), y.astype(np.float64))
    distance = ulps(run("pow", x, y, target=target), exact)
    excess = distance - np.where(np.isfinite(y), 2 + np.abs(y) / 6, 0)
    worst = int(np.argmax(np.where(np.isnan(excess), np.inf, excess)))
    assert excess[worst] <= 0, f"pow({x[worst]!r}, {y[worst]!r}): {distance[worst]} ulp"


def test_round_goes_to_even_and_select_chooses() -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 1.2, 1e10, math.inf, math.nan], np.float32)
    np.testing.assert_array_equal(run("round", x), np.rint(x))
    body = apply("select", apply("less", Const(1.0), X), X, Const(0.0))
    np.testing.assert_array_equal(evaluated(body, x), np.where(x > 1, x, 0))


@pytest.mark.parametrize("target", sorted(PRESETS))
@pytest.mark.parametrize("op", [*UNARY, "pow", "round"])
def test_no_target_calls_a_library(op: str, target: str) -> None:
    workload = call(op, 37)
    assembly = nest_assembly(
        build_nest(workload, default_schedule(workload, PRESETS[target], 1)), PRESETS[target]
    )
    words = [line.split()[0] for line in assembly.splitlines() if line.strip()]
    assert not {"call", "callq", "bl", "call_indirect"} & set(words)


def test_the_interpreter_agrees() -> None:
    x = np.linspace(-3, 3, 11, dtype=np.float32)
    for op in SINGLE[2:]:
        workload = call(op, 11)
        schedule = default_schedule(workload, native_target(), 1)
        got, expected = (
            run_native(workload, schedule, {"x0": x}),
            run_interpreted(workload, schedule, {"x0": x}),
        )
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_a_literal_is_computed_as_well() -> None:
    body = apply("add", Load("x0", at("s0")), apply("exp", Const(1.0)))
    workload = mapped(body, (5,), (operand("x0", 5),))
    got = run_native(
        workload, default_schedule(workload, native_target(), 1), {"x0": np.zeros(5, np.float32)}
    )
    np.testing.assert_allclose(got, np.full(5, math.e), rtol=1e-6)
