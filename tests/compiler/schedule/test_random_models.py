"""Any Subgraph of any small model, under any legal Schedule: machine code, interpreter and float64 reference agree.

And the reference of the whole model agrees with ONNX Runtime.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler.dtype import DType
from compiler.errors import CompileError, ScheduleError, UnsupportedOperator
from compiler.evaluate import reference_outputs
from compiler.pipeline import load_graph, lower
from compiler.scalar import Apply, walk
from compiler.space.rules import build_space
from compiler.target import PRESETS, native_target
from compiler.workload.evaluate import evaluate_program
from compiler.workload.ir import Workload
from compiler.workload.program import Program
from tests.compiler.execute import interpreted_outputs, native_outputs, relative_error, stored_error
from tests.compiler.random_models import models
from tests.compiler.random_steps import random_steps
from tests.compiler.workloads import random_operands, retyped
from tests.onnx_runtime import expected_outputs

TOLERANCE = {DType.F32: 2e-5, DType.F64: 1e-12}
_INTERPRETED_POINTS = 4000
_BLIND = 0.5
_DRAWS = 6
_NARROW = ("x86-64-v3", "aarch64-neoverse-n1")


def check(model: onnx.ModelProto, seed: int) -> None:
    """The whole model; then one Subgraph of it, one Schedule, all drawn by the seed."""
    rng = random.Random(seed)
    try:
        program = lower(load_graph(model))
    except UnsupportedOperator:
        return  # a form that the frontend refuses in one sentence
    check_whole(model, program, seed)
    workload = rng.choice(program.subgraphs).workload if program.subgraphs else None
    if workload is None or not all(o.elements for o in workload.buffers.values()):
        return
    dtype = rng.choice((DType.F32, DType.F32, DType.F64)) if _arithmetic_only(workload) else DType.F32
    workload, threads = retyped(workload, dtype), rng.randint(1, 3)
    operands = random_operands(workload, seed)
    expected = reference_outputs(workload, operands)
    if any(np.abs(value).max() > np.finfo(dtype.numpy).max for value in expected.values()):
        return  # float64 holds what this type cannot
    blind = rng.random() < _BLIND
    space = build_space(workload, native_target(), threads)
    schedule = random_steps(workload, rng) if blind else space.schedule(space.sample(rng))
    try:
        got = native_outputs(workload, schedule, operands, threads)
    except (ScheduleError, CompileError) as error:
        if not blind or "LLVM refuses" in str(error):
            raise
        return  # Steps that do not fit together, or that give no code, are refused in one sentence
    amplified = _amplified(workload, operands, expected, rng.getrandbits(32))
    tolerance = TOLERANCE[dtype] * max(_cancelled(workload, expected), amplified)
    assert stored_error(workload, got, expected) < tolerance, schedule.steps
    if sum(stage.points for stage in workload.stages) < _INTERPRETED_POINTS:
        other = build_space(workload, PRESETS[rng.choice(_NARROW)], threads)
        narrow = other.schedule(other.sample(rng))
        for each in (schedule, narrow):
            interpreted = interpreted_outputs(workload, each, operands)
            assert stored_error(workload, interpreted, expected) < tolerance, each.steps


def check_whole(model: onnx.ModelProto, program: Program, seed: int) -> None:
    """The Program in float64, and ONNX Runtime in float32."""
    random = np.random.default_rng(seed)
    inputs = {
        name: random.standard_normal(kind.sizes).astype(np.float32) for name, kind in program.inputs.items()
    }
    (wanted,) = expected_outputs(model, inputs).values()
    (got,) = evaluate_program(program, inputs).values()
    assert got.shape == wanted.shape
    if np.isfinite(wanted).all():
        np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-4 * max(1.0, float(np.abs(wanted).max())))


def _amplified(
    workload: Workload, operands: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray], seed: int
) -> float:
    """How much larger than the inputs' own roundings the outputs' are: exp(x) multiplies those of x by x."""
    random = np.random.default_rng(seed)

    def rounded(array: np.ndarray) -> np.ndarray:
        if not np.issubdtype(array.dtype, np.floating):
            return array
        return array * (1.0 + np.finfo(array.dtype).eps * random.choice((-1.0, 1.0), array.shape))

    def moved() -> float:
        outputs = reference_outputs(workload, {name: rounded(array) for name, array in operands.items()})
        return max(relative_error(outputs[name], expected[name]) for name in expected)

    unit = max((np.finfo(a.dtype).eps for a in operands.values() if a.dtype.kind == "f"), default=1.0)
    # Roundings of the two factors of a product that decides may cancel; not in every draw.
    return max(moved() for _ in range(_DRAWS)) / float(unit)


def _cancelled(workload: Workload, expected: Mapping[str, np.ndarray]) -> float:
    """How much larger errors may be: an elementary function's value is near 1, where all outputs may be near 0.

    0.5 x (1 + erf(x / sqrt 2)) at x = -3.4 is -8e-4; in float32 its last three digits are noise in any implementation.
    """
    if _arithmetic_only(workload):
        return 1.0
    largest = min(float(np.max(np.abs(array))) for array in expected.values())
    return max(1.0, 1.0 / max(largest, float(np.finfo(np.float32).tiny)))


def _arithmetic_only(workload: Workload) -> bool:
    """Whether nothing in it is an elementary function, which exist in float32 alone."""
    plain = {"add", "sub", "mul", "div", "max", "min", "neg", "abs", "sqrt"}
    return all(e.op in plain for s in workload.stages for e in walk(s.body) if isinstance(e, Apply))


_RELAXED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.filter_too_much]}


@given(models(), st.integers(0, 2**32 - 1))
@settings(max_examples=100, **_RELAXED)
def test_a_hundred_random_models(model: onnx.ModelProto, seed: int) -> None:
    check(model, seed)


@pytest.mark.slow
@given(models(), st.integers(0, 2**32 - 1))
@settings(max_examples=10_000, **_RELAXED)
def test_ten_thousand_random_models(model: onnx.ModelProto, seed: int) -> None:
    check(model, seed)
