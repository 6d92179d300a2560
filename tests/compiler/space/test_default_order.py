"""The order of loops is the one under which fetching hides behind arithmetic."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from compiler.index import Index
from compiler.scalar import Load, apply
from compiler.space.default_order import ACROSS, LEAST_READS, cheapest_order, tile_traffic
from compiler.space.register_tile import RegisterTile
from compiler.space.rules import build_space
from compiler.target import PRESETS, native_target
from compiler.workload.ir import Workload
from tests.compiler.execute import run_interpreted, run_native
from tests.compiler.workloads import anchored, matmul, operand, random_operands

TARGET = replace(PRESETS["x86-64-v3"], l1_bytes=32 << 10, l2_bytes=512 << 10, l3_bytes=32 << 20)


def chosen(m: int, n: int, k: int, threads: int = 1) -> str:
    """Under tiles of 4 rows and 3 vectors, two multiply-adds a cycle."""
    workload = matmul(m, n, k)
    anchor, store = workload.stages
    tile = RegisterTile(workload, anchor, store, TARGET, threads)
    traffic = tile_traffic(tile, 4, 6 * k)
    return cheapest_order(tile.loops_by_order({"rows": 4, "vectors": 3}), traffic)


def test_a_panel_that_few_tiles_read_is_fetched_once() -> None:
    assert chosen(12, 3072, 768) == "outside"
    assert chosen(12, 512, 3072) == "outside"


def test_panels_that_are_fetched_ahead_may_be_fetched_again() -> None:
    order = chosen(128, 1536, 768)
    assert order.startswith("block")
    assert int(order.removeprefix("block")) >= LEAST_READS


def test_constants_that_leave_the_last_cache_are_fetched_once() -> None:
    assert chosen(128, 3072, 768) == "outside"


def test_data_that_leave_the_last_cache_are_fetched_once() -> None:
    assert chosen(1500, 384, 1536).startswith("block")


def test_a_large_result_of_short_sums_is_stored_block_by_block() -> None:
    assert chosen(2048, 2048, 64).startswith("block")


def test_panels_that_the_first_cache_holds_are_all_read_for_each_row() -> None:
    assert chosen(1024, 48, 32) != "outside"


@pytest.mark.parametrize(("m", "n", "k"), [(100, 48, 128), (196, 144, 64), (400, 192, 128)])
def test_threads_share_rows_out_so_that_each_finds_what_it_stored_before(m: int, n: int, k: int) -> None:
    assert chosen(m, n, k) == "outside"
    for threads in (2, 4):
        assert chosen(m, n, k, threads) != "outside"


def test_threads_share_constants_out_where_those_are_more_than_the_data() -> None:
    assert chosen(12, 3072, 768, threads=2) == "outside"


def test_threads_have_as_many_tiles() -> None:
    """Of 25 tiles of rows, blocks of 14 would leave one thread 11 of them."""
    workload = matmul(100, 48, 128)
    anchor, store = workload.stages
    tile = RegisterTile(workload, anchor, store, TARGET, 2)
    loops = tile.loops_by_order({"rows": 4, "vectors": 3})
    assert "block14" in loops
    assert chosen(100, 48, 128, threads=2) != "block14"


def grouped_product(rows: int, groups: int, per_in: int, per_out: int) -> Workload:
    """A grouped 1x1 convolution on places of one dimension."""
    data = Load("x0", (Index.of("s0"), Index.of("s1") * per_in + "r0"))
    weights = Load("c0", (Index.of("s1") * per_out + "s2", Index.of("r0")))
    operands = (
        operand("x0", rows, groups * per_in),
        operand("c0", groups * per_out, per_in, constant=True),
    )
    body = apply("mul", data, weights)
    return anchored((rows, groups, per_out), (per_in,), "sum", body, operands)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("rows", [25, 60, 101])
def test_blocks_of_rows_around_groups(rows: int, threads: int) -> None:
    """Rows of all groups lie beside each other in memory, so that blocks of them are what threads share out."""
    workload = grouped_product(rows, 3, 5, 18)
    space = build_space(workload, native_target(), threads)
    knob = next(i for i, k in enumerate(space.knobs) if k.name == "order")
    around = [i for i, c in enumerate(space.knobs[knob].choices) if str(c).startswith(ACROSS)]
    assert around
    operands = random_operands(workload)
    expected = run_interpreted(workload, space.schedule(space.default), operands)
    tried = [(*space.default[:knob], i, *space.default[knob + 1 :]) for i in around]
    legal = [a for a in tried if space.is_legal(a)]
    assert legal
    for assignment in legal:
        got = run_native(workload, space.schedule(assignment), operands, threads)
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5, err_msg=str(space.values(assignment)))
