"""Winograd's algorithm: exact matrices, an equivalent Workload, right machine code at every edge."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from compiler.dtype import DType
from compiler.errors import ScheduleError
from compiler.evaluate import reference_outputs
from compiler.index import Index
from compiler.loop.ir import LoopKind, Store, walk_statements
from compiler.pipeline import build_kernel, build_nest
from compiler.scalar import Apply, Guard, Load, Pick, walk
from compiler.schedule.algorithm import REWRITES
from compiler.schedule.convolution import find_convolution
from compiler.schedule.cook_toom import cook_toom, growth, whole
from compiler.schedule.padded import BUFFER, find_padding, padded
from compiler.schedule.schedule import Schedule
from compiler.schedule.winograd import winograd, winograd_types
from compiler.space.rules import build_space
from compiler.space.winograd_phases import winograd_tiles
from compiler.target import PRESETS, Target, native_target
from compiler.workload.ir import Workload
from tests.compiler.drawn import drawn
from tests.compiler.execute import relative_error, run_interpreted, run_native
from tests.compiler.integers import full_range, integer_convolution
from tests.compiler.workloads import (
    KINDS,
    convolution,
    depthwise,
    dilated,
    grouped,
    grouped_apart,
    matmul,
    padded_convolution,
    random_operands,
    row_convolution,
    windowed,
)
from tests.slow import THREADS, slow


@pytest.mark.parametrize(("m", "r"), [(1, 3), (2, 3), (3, 3), (4, 3), (5, 3), (6, 3), (2, 5), (4, 4)])
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


@pytest.mark.parametrize(
    ("m", "r", "stride"), [(2, 3, 2), (4, 3, 2), (6, 3, 2), (3, 5, 2), (2, 7, 2), (3, 3, 3), (2, 2, 2)]
)
def test_the_matrices_are_exact_with_a_stride(m: int, r: int, stride: int) -> None:
    rng = random.Random(m * 10 + r)
    taps = [Fraction(rng.randint(-9, 9)) for _ in range(r)]
    data = [Fraction(rng.randint(-9, 9)) for _ in range(stride * (m - 1) + r)]
    matrices = cook_toom(m, r, stride)
    filtered = [sum(a * b for a, b in zip(row, taps, strict=True)) for row in matrices.filter]
    moved = [sum(a * b for a, b in zip(row, data, strict=True)) for row in matrices.data]
    products = [a * b for a, b in zip(filtered, moved, strict=True)]
    got = [sum(a * b for a, b in zip(row, products, strict=True)) for row in matrices.output]
    assert got == [sum(taps[j] * data[stride * i + j] for j in range(r)) for i in range(m)]


def test_there_are_only_so_many_points() -> None:
    with pytest.raises(ValueError, match=r"F\(8, 3\)"):
        cook_toom(8, 3)
    with pytest.raises(ValueError, match=r"F\(5, 3\)"):
        cook_toom(5, 3, whole_points=True)
    with pytest.raises(ValueError, match=r"F\(2, 2\) with a stride of 3"):
        cook_toom(2, 2, 3)


@pytest.mark.parametrize("m", [2, 3, 4, 5, 6])
def test_entries_that_a_kernel_multiplies_by_are_floats(m: int) -> None:
    """The filter's are not: they only multiply constants, at compile time."""
    matrices = cook_toom(m, 3)
    for matrix in (matrices.data, matrices.output):
        assert all(Fraction(float(np.float32(float(x)))) == x for row in matrix for x in row)


@pytest.mark.parametrize("m", [3, 4])
def test_errors_grow_less_than_with_whole_points(m: int) -> None:
    assert growth(cook_toom(m, 3)) < 0.9 * growth(cook_toom(m, 3, whole_points=True))


@pytest.mark.parametrize("m", [2, 3, 4, 5, 6])
@pytest.mark.parametrize(
    "workload",
    [
        *(convolution(size, 5, 6, 3) for size in (4, 7, 9)),
        convolution(7, 4, 3, 2),
        convolution(7, 4, 3, 3, 2),
        row_convolution(11, 5, 4, 3),
        windowed((4, 5, 6), 3, 4, (3, 3, 3)),
        windowed((3, 6, 4), 3, 4, (2, 3, 3), stride=2),
        windowed((7, 6), 3, 4, (5, 2)),
        row_convolution(7, 3, 5, 2, beside=3),
        row_convolution(6, 3, 5, 3, beside=2, stride=2),
        convolution(5, 4, 3, 5, 2),
        grouped_apart(7, 3, 5, 4),
        grouped_apart(5, 2, 4, 3, images=2),
    ],
)
def test_the_rewritten_workload_is_equivalent(m: int, workload: Workload) -> None:
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    rewritten = winograd(workload, (m,))
    transformed = {n: t.apply(operands[n].astype(np.float64)) for n, t in rewritten.transforms.items()}
    got = reference_outputs(rewritten, {**operands, **transformed})["y0"]
    np.testing.assert_allclose(got, expected, atol=1e-12)


@pytest.mark.parametrize(("m", "taps"), [(2, 4), (5, 4), (3, 5), (4, 5), (3, 6), (2, 7)])
def test_windows_may_be_larger(m: int, taps: int) -> None:
    workload = padded_convolution(9, 4, 3, taps)
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    rewritten = winograd(padded(workload, (m,)), (m,))
    transformed = {n: t.apply(operands[n].astype(np.float64)) for n, t in rewritten.transforms.items()}
    got = reference_outputs(rewritten, {**operands, **transformed})["y0"]
    np.testing.assert_allclose(got, expected, atol=1e-12)


def test_tiles_end_where_no_matrices_are_known() -> None:
    for taps, most in ((2, 6), (3, 6), (4, 5), (5, 4), (7, 2), (8, 0)):
        assert max(winograd_tiles(convolution(24, 32, 32, taps)), default=0) <= most
    with pytest.raises(ScheduleError, match="no matrices"):
        winograd(convolution(24, 32, 32, 8), (2,))


@pytest.mark.parametrize(
    ("tile", "size", "rewrite"),
    [((), 7, lambda w: w), ((2,), 8, lambda w: winograd(w, (2,))), ((4,), 10, lambda w: winograd(w, (4,)))],
)
def test_padding_is_copied_first(
    tile: tuple[int, ...], size: int, rewrite: Callable[[Workload], Workload]
) -> None:
    workload = padded_convolution(5, 3, 4, 3)
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    rewritten = rewrite(padded(workload, tile))
    transformed = {n: t.apply(operands[n].astype(np.float64)) for n, t in rewritten.transforms.items()}
    got = reference_outputs(rewritten, {**operands, **transformed})["y0"]
    np.testing.assert_allclose(got, expected, atol=1e-12)
    assert find_padding(rewritten) is None
    assert next(t for t in rewritten.temporaries if t.name == BUFFER).sizes == (size, size, 3)
    assert not any(isinstance(e, Guard) for s in rewritten.stages[1:] for e in walk(s.body))


def test_tiles_that_stick_out_of_the_image_need_no_transforms_of_their_own() -> None:
    def multiplications(size: int) -> int:
        workload = padded_convolution(size, 16, 16, 3)
        space = build_space(workload, PRESETS["x86-64-v3"], 1)
        values = {
            **space.values(space.default),
            "algorithm": "winograd4",
            "rows": 1,
            "vectors": 1,
            "unroll": 1,
        }
        nest = build_nest(workload, space.build(values))
        stores = [s for s in walk_statements(nest.body) if isinstance(s, Store)]
        return sum(isinstance(e, Pick) for s in stores for e in walk(s.value))

    assert multiplications(14) == multiplications(16)


def test_only_padding_with_zeros_is_copied() -> None:
    with pytest.raises(ScheduleError, match="padded with zeros"):
        padded(convolution(5, 3, 4, 3), ())


@pytest.mark.parametrize(
    "workload", [convolution(5, 3, 20, 2, 3), convolution(5, 3, 4, 1), depthwise(7, 8), grouped(6, 3, 12, 18)]
)
def test_it_does_not_apply_where_nothing_is_shared(workload: Workload) -> None:
    assert find_convolution(workload) is None
    with pytest.raises(ScheduleError, match="a row or a square"):
        winograd(workload, (2,))


def test_taps_that_differ_from_row_to_row_are_no_convolution() -> None:
    workload = row_convolution(6, 4, 3, 3)
    anchor = workload.stages[0]
    product = anchor.body
    assert isinstance(product, Apply)
    data, taps = product.args
    assert isinstance(data, Load)
    assert isinstance(taps, Load)
    own = Load(taps.buffer, (Index.of("s0") * 3 + "s1", *taps.indices[1:]))
    along = Load(data.buffer, (data.indices[0], data.indices[1] + Index.of("s0")))
    for changed in (Apply("mul", (data, own)), Apply("mul", (along, taps))):
        stages = (replace(anchor, body=changed), *workload.stages[1:])
        assert find_convolution(replace(workload, stages=stages)) is None


def test_a_stride_makes_fewer_channels_no_choice() -> None:
    assert winograd_tiles(convolution(28, 16, 16, 3, 2))
    assert not winograd_tiles(convolution(28, 3, 64, 3, 2))


def test_groups_of_many_channels_take_it_without_measuring() -> None:
    target = PRESETS["x86-64-v4"]
    for groups, default in ((4, "winograd"), (56, "direct")):
        space = build_space(grouped_apart(28, groups, 224 // groups, 224 // groups), target, 1)
        assert str(space.values(space.default)["algorithm"]).startswith(default)


@pytest.mark.parametrize(("images", "rows"), [(None, 17), (2, 33)])
def test_entries_of_groups_do_not_share_the_sets_of_a_cache(images: int | None, rows: int) -> None:
    """16 places of 192 channels are 12 KiB: all 49 entries would begin where a page does."""
    rewritten = winograd(grouped_apart(20, 8, 24, 24, images=images), (5,))
    for name in ("tiles", "product"):
        sizes = rewritten.buffers[f"{name}_buffer"].sizes
        assert sizes[-2:] == (rows, 24)
    dense = winograd(convolution(20, 192, 192, 3), (5,))
    assert dense.buffers["tiles_buffer"].sizes == (49, 16, 192)


def test_bytes_are_not_summed_along_one_dimension() -> None:
    found = find_convolution(row_convolution(9, 4, 4, 3))
    assert found is not None
    whole_sums = replace(found, stage=replace(found.stage, dtype=DType.I32))
    with pytest.raises(ValueError, match="along one dimension"):
        winograd_types(row_convolution(9, 4, 4, 3), whole_sums, 2)


def test_it_does_not_apply_to_a_matrix_product() -> None:
    assert find_convolution(matmul(5, 6, 7)) is None
    knobs = build_space(KINDS["matmul"], native_target(), 1).knobs
    assert not any("winograd" in str(c) for k in knobs for c in k.choices)


@pytest.mark.parametrize(
    "workload",
    [
        convolution(9, 19, 21, 3),
        *(slow(convolution(size, 19, 21, 3)) for size in (6, 14)),
        slow(convolution(11, 19, 21, 5)),
        padded_convolution(10, 12, 17, 4),
        slow(convolution(9, 19, 21, 3, 2)),
        row_convolution(50, 19, 21, 3),
        windowed((4, 7, 9), 20, 21, (3, 3, 3)),
        slow(windowed((10, 11), 17, 33, (3, 5))),
        row_convolution(17, 24, 40, 7, beside=5),
        slow(row_convolution(33, 20, 33, 3, stride=2)),
        padded_convolution(22, 20, 33, 3, 2),
        slow(grouped_apart(13, 3, 24, 20)),
        grouped_apart(8, 4, 16, 16, images=2),
        dilated((13, 17), 19, 21, 3, (2, 4), pad=3, images=(2,)),
        slow(dilated((30,), 20, 24, 3, (7,), pad=7)),
        dilated((5, 8, 11), 20, 21, 3, (3, 2, 3), pad=3),
    ],
)
@pytest.mark.parametrize("threads", THREADS)
def test_machine_code_agrees_with_the_reference(workload: Workload, threads: int) -> None:
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    space = build_space(workload, native_target(), threads)
    algorithms = next(k.choices for k in space.knobs if k.name == "algorithm")
    assert len(algorithms) > 1
    rng = random.Random(workload.digest)
    for algorithm in algorithms[1:]:
        ours = drawn(space, rng, algorithm=algorithm)
        chosen = next(a for a in ours if packs(workload, space.schedule(a)))
        got = run_native(workload, space.schedule(chosen), operands, threads)
        assert relative_error(got, expected) < 2e-5, space.values(chosen)


def packs(workload: Workload, schedule: Schedule) -> bool:
    """Whether constants do not grow too much: wide tiles of few columns would have more of nothing than they have."""
    try:
        build_nest(workload, schedule)
    except ScheduleError as error:
        return "cannot pack" not in str(error)
    return True


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
    assert [p.name for p in kernel.params if p.role == "scratch"] == ["tiles_buffer", "product_buffer"]
    assert kernel.phases[0].parallel_extent == 4


@pytest.mark.parametrize("m", [2, 3, 4])
def test_whole_matrices_compute_a_multiple(m: int) -> None:
    rng = random.Random(m)
    taps, data = ([rng.randint(-9, 9) for _ in range(n)] for n in (3, m + 2))
    matrices, factor = whole(cook_toom(m, 3, whole_points=True))
    assert all(x.denominator == 1 for part in (matrices.filter, matrices.data) for row in part for x in row)
    filtered = [sum(a * b for a, b in zip(row, taps, strict=True)) for row in matrices.filter]
    moved = [sum(a * b for a, b in zip(row, data, strict=True)) for row in matrices.data]
    products = [a * b for a, b in zip(filtered, moved, strict=True)]
    got = [sum(a * b for a, b in zip(row, products, strict=True)) for row in matrices.output]
    assert got == [factor * sum(taps[j] * data[i + j] for j in range(3)) for i in range(m)]


def bytes_schedule(workload: Workload, algorithm: str, target: Target) -> Schedule:
    space = build_space(workload, target, 1)
    return space.schedule(next(drawn(space, random.Random(0), instruction=algorithm)))


@pytest.mark.parametrize("algorithm", ["winograd2", "winograd3", "winograd4"])
def test_of_bytes_it_is_exact(algorithm: str) -> None:
    workload = integer_convolution(5, 3, 9, zero=200)
    operands = full_range(workload)
    expected = reference_outputs(workload, operands)["y0"]
    plan = bytes_schedule(workload, algorithm, native_target())
    np.testing.assert_array_equal(run_interpreted(workload, plan, operands), expected)
    np.testing.assert_array_equal(run_native(workload, plan, operands), expected)


@pytest.mark.parametrize("algorithm", ["winograd2", "winograd3", "winograd4"])
@pytest.mark.parametrize("weight", [-128, 127])
def test_of_bytes_it_is_exact_where_all_sums_are_largest(algorithm: str, weight: int) -> None:
    """Products wrap around in 32 bits on the way, the result must not."""
    workload = integer_convolution(6, 114, 8)
    operands = full_range(workload)
    operands["x0"][:] = 255
    operands["c0"][:] = weight
    expected = reference_outputs(workload, operands)["y0"]
    plan = bytes_schedule(workload, algorithm, native_target())
    np.testing.assert_array_equal(run_native(workload, plan, operands), expected)


@pytest.mark.parametrize(
    ("m", "channels", "text"), [(4, 116, "does not hold"), (2, 1828 * 16, "does not hold")]
)
def test_of_bytes_it_is_refused_where_a_sum_may_not_fit(m: int, channels: int, text: str) -> None:
    copied = REWRITES["copied_data"](integer_convolution(6, channels, 8), (0, 2))
    with pytest.raises(ScheduleError, match=text):
        winograd(copied, (m,))
    fitting = REWRITES["copied_data"](integer_convolution(6, 114, 8), (0, 2))
    assert winograd(fitting, (m,)).transforms


def test_of_bytes_with_many_channels_it_is_the_default() -> None:
    wide, wider = integer_convolution(28, 64, 64), integer_convolution(28, 128, 64)
    narrow = integer_convolution(28, 3, 64)
    v3 = PRESETS["x86-64-v3"]
    assert default_instruction(wide, v3) == "winograd4"
    assert default_instruction(wider, v3) == "winograd3"  # of 3 sticks out, of 4 does not fit into 32 bits
    assert (
        default_instruction(integer_convolution(7, 512, 64), v3) == "winograd2"
    )  # nearly as fast, sooner built
    # Few places for which so many constants come that each product as it is costs less.
    assert default_instruction(integer_convolution(3, 512, 512), v3) == "vpmaddwd.256"
    assert default_instruction(narrow, v3) == "vpmaddwd.256"
    vnni = replace(PRESETS["x86-64-v4"], features=(*PRESETS["x86-64-v4"].features, "avx512vnni"))
    assert default_instruction(wide, vnni) == "winograd4"
    assert default_instruction(integer_convolution(28, 32, 32), vnni) == "vpdpbusd.512"


def default_instruction(workload: Workload, target: Target) -> str:
    space = build_space(workload, target, 1)
    return str(space.values(space.default)["instruction"])
