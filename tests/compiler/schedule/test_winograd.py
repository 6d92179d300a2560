"""Winograd's algorithm: exact matrices, an equivalent Workload, right machine code at every edge."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

from compiler.errors import ScheduleError
from compiler.evaluate import reference_outputs
from compiler.loop.ir import LoopKind
from compiler.pipeline import build_kernel, build_nest
from compiler.schedule.cook_toom import cook_toom
from compiler.schedule.winograd import find_convolution, winograd
from compiler.space.rules import build_space
from compiler.target import PRESETS, native_target
from compiler.workload.ir import Workload
from tests.compiler.execute import relative_error, run_native
from tests.compiler.workloads import KINDS, convolution, depthwise, grouped, matmul, random_operands


@pytest.mark.parametrize(("m", "r"), [(1, 3), (2, 3), (3, 3), (4, 3), (2, 5), (4, 4)])
def test_the_matrices_are_exact(m: int, r: int) -> None:
    rng = random.Random(m * 10 + r)
    taps = [Fraction(rng.randint(-9, 9)) for _ in range(r)]
    data = [Fraction(rng.randint(-9, 9)) for _ in range(m + r - 1)]
    matrices = cook_toom(m, r)
    filtered = [sum(a * b for a, b in zip(row, taps, strict=True)) for row in matrices.filter]
    moved = [sum(a * b for a, b in zip(row, data, strict=True)) for row in matrices.data]
    products = [a * b for a, b in zip(filtered, moved, strict=True)]
    got = [sum(a * b for a, b in zip(row, products, strict=True)) for row in matrices.output]
    assert got == [sum(taps[j] * data[i + j] for j in range(r)) for i in range(m)]


def test_there_are_only_so_many_points() -> None:
    with pytest.raises(ValueError, match=r"F\(8, 3\)"):
        cook_toom(8, 3)


@pytest.mark.parametrize("m", [2, 3, 4])
@pytest.mark.parametrize("size", [4, 7, 9])
def test_the_rewritten_workload_is_equivalent(m: int, size: int) -> None:
    workload = convolution(size, 5, 6, 3)
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    rewritten = winograd(workload, (m,))
    transformed = {n: t.apply(operands[n].astype(np.float64)) for n, t in rewritten.transforms.items()}
    got = reference_outputs(rewritten, {**operands, **transformed})["y0"]
    np.testing.assert_allclose(got, expected, atol=1e-12)


@pytest.mark.parametrize(
    "workload", [convolution(5, 3, 20, 3, 2), convolution(5, 3, 4, 1), depthwise(7, 8), grouped(6, 3, 12, 18)]
)
def test_it_applies_to_dense_convolutions_with_stride_1_only(workload: Workload) -> None:
    assert find_convolution(workload) is None
    with pytest.raises(ScheduleError, match="stride 1"):
        winograd(workload, (2,))


def test_it_does_not_apply_to_a_matrix_product() -> None:
    assert find_convolution(matmul(5, 6, 7)) is None
    assert "algorithm" not in [k.name for k in build_space(KINDS["matmul"], native_target(), 1).knobs]


@pytest.mark.parametrize("size", [6, 9, 14])
def test_machine_code_agrees_with_the_reference(size: int) -> None:
    workload = convolution(size, 19, 21, 3)
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    for threads in (1, 2):
        space = build_space(workload, native_target(), threads)
        algorithms = next(k.choices for k in space.knobs if k.name == "algorithm")
        assert len(algorithms) > 1
        rng = random.Random(size)
        for algorithm in algorithms[1:]:
            samples = (space.sample(rng) for _ in range(10_000))
            chosen = next(a for a in samples if space.values(a)["algorithm"] == algorithm)
            got = run_native(workload, space.schedule(chosen), operands, threads)
            assert relative_error(got, expected) < 2e-5, space.values(chosen)


def test_its_three_phases_are_shared_out_one_after_the_other() -> None:
    workload = convolution(8, 16, 32, 3)
    space = build_space(workload, PRESETS["x86-64-v4"], 2)
    values = {
        **space.values(space.default),
        "algorithm": "winograd4",
        "rows": 4,
        "vectors": 1,
        "order": "block1",
    }
    nest = build_nest(workload, space.build(values))
    assert len(nest.phases) == 3
    assert all(getattr(phase, "kind", None) is LoopKind.PARALLEL for phase in nest.phases)
    kernel = build_kernel(workload, space.build(values), PRESETS["x86-64-v4"])
    assert [p.name for p in kernel.params if p.role == "scratch"] == ["data_buffer", "product_buffer"]
    assert kernel.parallel_extents[0] == 4
