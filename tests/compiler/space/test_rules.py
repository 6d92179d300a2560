"""Search spaces follow from structure and Target alone."""

from __future__ import annotations

import random
from math import prod

import pytest

from compiler.errors import ScheduleError
from compiler.evaluate import reference_outputs
from compiler.index import Index
from compiler.pipeline import build_nest
from compiler.scalar import Bound, Const, Guard, Load, apply
from compiler.space.default_tile import default_values
from compiler.space.register_tile import RegisterTile
from compiler.space.rules import build_space
from compiler.space.space import number
from compiler.space.structure import tile_axes
from compiler.target import PRESETS, native_target
from compiler.workload.ir import Workload
from tests.compiler.execute import relative_error, run_native
from tests.compiler.workloads import (
    KINDS,
    anchored,
    at,
    convolution,
    enlarging,
    lstm_cell,
    mapped,
    matmul,
    operand,
    padded_convolution,
    padded_line,
    product,
    random_operands,
    second_matrix,
)

V3 = PRESETS["x86-64-v3"]


@pytest.mark.parametrize("kind", KINDS)
def test_samples_are_legal(kind: str) -> None:
    space = build_space(KINDS[kind], native_target(), 2)
    rng = random.Random(1)
    assert all(space.is_legal(space.sample(rng)) for _ in range(50))


def test_a_tile_never_needs_more_registers_than_the_target_has() -> None:
    for target in (t for t in PRESETS.values() if not t.grid_threads):
        space = build_space(convolution(28, 64, 128, 3), target, 1)
        rng = random.Random(2)
        for _ in range(200):
            values = space.values(space.sample(rng))
            rows, vectors = values["rows"], values["vectors"]
            assert isinstance(rows, int)
            assert isinstance(vectors, int)
            assert rows * vectors + min(rows, vectors) < target.vector_registers


@pytest.mark.parametrize(("channels", "rows", "vectors"), [(20, 4, 3), (12, 6, 2), (27, 3, 4), (24, 4, 3)])
def test_tiles_of_pairs_are_as_large_as_the_registers_allow(channels: int, rows: int, vectors: int) -> None:
    space = build_space(padded_convolution(24, 12, channels, 3), PRESETS["x86-64-v3"], 1)
    values = space.values(space.default)
    assert (values["rows"], values["vectors"]) == (rows, vectors)


@pytest.mark.parametrize(("along", "size", "row"), [(0, 17, "s1"), (1, 17, "s0"), (1, 7, "s1")])
def test_rows_lie_along_an_axis_without_padding_where_it_is_long(along: int, size: int, row: str) -> None:
    workload = padded_line(size, 8, 24, 5, along)
    anchor, store = workload.stages
    found = tile_axes(workload, store, V3, anchor).row
    assert found is not None
    assert found.name == row
    space, operands = build_space(workload, V3, 1), random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    assert relative_error(run_native(workload, space.schedule(space.default), operands), expected) < 1e-5


def test_a_block_never_has_more_threads_than_the_target_allows() -> None:
    target = PRESETS["nvptx64-sm80"]
    for workload in KINDS.values():
        space = build_space(workload, target, 1)
        assert space.is_legal(space.default)
        for assignment in space.enumerate(space.size):
            values = space.values(assignment)
            assert number(values, "rows") * number(values, "columns") <= target.grid_threads


def test_one_thread_has_no_parallel_knob() -> None:
    names = {
        threads: {k.name for k in build_space(matmul(64, 64, 64), native_target(), threads).knobs}
        for threads in (1, 2)
    }
    assert "parallel" not in names[1]
    assert "parallel" in names[2]


def test_the_same_structure_gives_the_same_space() -> None:
    first, second = (build_space(convolution(9, 8, 8, 3), PRESETS["x86-64-v4"], 2) for _ in range(2))
    assert first.knobs == second.knobs
    assert first.default == second.default


def test_an_illegal_assignment_is_refused() -> None:
    space = build_space(convolution(28, 64, 128, 3), PRESETS["x86-64-v3"], 1)
    values = {**space.values(space.default), "rows": 14, "vectors": 4}
    with pytest.raises(ScheduleError, match="do not fit"):
        space.build(values)


def test_an_activation_is_packed_where_lanes_would_be_gathered() -> None:
    def chosen(workload: Workload) -> object:
        space = build_space(workload, PRESETS["x86-64-v3"], 1)
        return space.values(space.default)["algorithm"]

    assert chosen(product(2, 32, 64, 24, turned="x1")) == "panels"
    assert chosen(product(2, 4, 64, 24, turned="x1")) == "direct"
    assert chosen(product(2, 32, 64, 24)) == "direct"


def test_a_part_of_a_constant_is_packed_alone() -> None:
    workload = second_matrix(1, 70, 29)
    space = build_space(workload, PRESETS["x86-64-v3"], 1)
    nest = build_nest(workload, space.schedule(space.default))
    packing = nest.by_name["c0"].packing
    assert packing is not None
    assert packing.start == (1, 0, 0)
    assert prod(packing.shape) < 2 * 70 * 29


def test_gates_of_many_rows_are_stored_block_by_block() -> None:
    for rows, name in ((1, "direct"), (32, "apart")):
        space = build_space(lstm_cell(rows, 64, 32), PRESETS["x86-64-v3"], 1)
        assert space.values(space.default)["algorithm"] == name
        schedules = [space.schedule(a) for a in (space.default, *space.starts)]
        nests = [build_nest(lstm_cell(rows, 64, 32), schedule) for schedule in schedules]
        assert {buffer.role for nest in nests for buffer in nest.buffers} == {
            "input",
            "constant",
            "output",
            None,
        }


def test_a_small_space_can_be_enumerated() -> None:
    space = build_space(KINDS["add_relu"], native_target(), 2)
    found = list(space.enumerate(1000))
    assert len(found) == len(set(found)) <= space.size
    assert space.default in found


@pytest.mark.parametrize("channels", [*range(1, 18), 128, 131])
def test_the_default_is_legal_however_long_the_innermost_sum_is(channels: int) -> None:
    for workload in (
        convolution(12, channels, 16, 3),
        convolution(12, channels, 16, 1),
        matmul(9, 16, channels),
    ):
        space = build_space(workload, native_target(), 1)
        assert space.is_legal(space.default)
        assert all(map(space.is_legal, space.starts))


def test_lanes_that_are_stored_apart_where_long_sums_would_leave_most_empty() -> None:
    target = PRESETS["x86-64-v4"]
    long, short = enlarging(19, 8, 3), enlarging(19, 4, 3)
    assert tile_axes(long, long.stages[1], target, long.stages[0]).vector.name == "s3"
    assert tile_axes(short, short.stages[1], target, short.stages[0]).vector.name == "s4"


def test_lanes_of_short_sums_without_products_are_stored_together() -> None:
    """Windows along rows of two elements: additions of what is read once make up for nothing."""
    total = windowed_sum(9)
    assert tile_axes(total, total.stages[1], V3, total.stages[0]).vector.name == "s1"
    total = windowed_sum(40)
    assert tile_axes(total, total.stages[1], V3, total.stages[0]).vector.name == "s0"


def windowed_sum(taps: int) -> Workload:
    read = Load("x0", (Index.of("s0") + "r0", Index.of("s1")))
    return anchored((256, 2), (taps,), "sum", read, (operand("x0", 256 + taps, 2),))


@pytest.mark.parametrize(("divisor", "unroll"), [(2, 1), (3, 3), (6, 3), (5, 5), (11, 1)])
def test_maps_with_quotients_are_unrolled_until_lanes_are_alike(divisor: int, unroll: int) -> None:
    """So that each lane's quotient is known when code is made: of eleven there are too many kinds."""
    place = Index.of("s1")
    read = Load("x0", (Index.of("s0"), place // divisor))
    body = Guard((Bound(place % divisor, 0, 1),), read, Const(0.0))
    workload = mapped(body, (6, 166), (operand("x0", 6, 166),))
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    space = build_space(workload, V3, 1)
    assert space.values(space.default)["unroll"] == unroll
    native = build_space(workload, native_target(), 1)
    assert relative_error(run_native(workload, native.schedule(native.default), operands), expected) == 0


def test_lanes_are_not_stored_apart_where_they_would_be_gathered() -> None:
    """Three channels, places three elements apart; the input has its places much further apart."""
    workload = convolution(19, 40, 3, 1)
    assert (
        tile_axes(workload, workload.stages[1], PRESETS["x86-64-v4"], workload.stages[0]).vector.name == "s2"
    )


@pytest.mark.parametrize("channels_first", [True, False])
def test_windows_below_each_other_stand_in_the_body(channels_first: bool) -> None:  # noqa: FBT001
    """7 x 7 is too large to be unrolled whole: of its two sums the one along the rows of the tile is."""
    axes = ("s0", "s1", "s2") if channels_first else ("s2", "s0", "s1")
    sizes = (16, 28, 28) if channels_first else (28, 28, 16)
    channel, *places = (Index.of(name) for name in axes)
    window = (places[0] + "r0", places[1] + "r1")
    data = Load("x0", (channel, *window) if channels_first else (*window, channel))
    body = apply("mul", data, Load("c0", (channel, *at("r0", "r1"))))
    held = (16, 34, 34) if channels_first else (34, 34, 16)
    operands = (operand("x0", *held), operand("c0", 16, 7, 7, constant=True))
    workload = anchored(sizes, (7, 7), "sum", body, operands)
    tile = RegisterTile(workload, *workload.stages, V3, 1)
    assert default_values(tile)["reduce"] == (1 if channels_first else 0)


@pytest.mark.parametrize(
    ("x", "rows", "chosen"),
    [
        pytest.param(("r0", "s0"), 128, "panels", id="turned, many rows"),
        pytest.param(("r0", "s0"), 32, "direct", id="turned, few rows"),
        pytest.param(("s0", "r0"), 128, "direct", id="one after the other"),
    ],
)
def test_lines_of_both_factors_that_are_far_apart_are_copied_for_many_rows(
    x: tuple[str, str], rows: int, chosen: str
) -> None:
    sizes = {"s0": rows, "r0": 256}
    operands = (operand("x0", *(sizes[name] for name in x)), operand("x1", 256, 192))
    body = apply("mul", Load("x0", at(*x)), Load("x1", at("r0", "s1")))
    space = build_space(anchored((rows, 192), (256,), "sum", body, operands), V3, 1)
    assert space.values(space.default)["algorithm"] == chosen


@pytest.mark.parametrize(
    ("heads", "rows", "chosen"),
    [
        pytest.param(8, 64, "panels", id="places a page apart"),
        pytest.param(8, 16, "direct", id="few rows"),
        pytest.param(1, 64, "direct", id="one after the other"),
    ],
)
def test_lines_that_drive_each_other_out_are_copied_for_many_rows(heads: int, rows: int, chosen: str) -> None:
    operands = (operand("x0", 128, heads, rows), operand("x1", 128, heads, 128))
    body = apply("mul", Load("x0", at("r0", "s0", "s1")), Load("x1", at("r0", "s0", "s2")))
    space = build_space(anchored((heads, rows, 128), (128,), "sum", body, operands), V3, 1)
    assert space.values(space.default)["algorithm"] == chosen
