"""The order of loops is the one under which fetching hides behind arithmetic."""

from __future__ import annotations

from dataclasses import replace

from compiler.space.default_order import LEAST_READS, cheapest_order, tile_traffic
from compiler.space.register_tile import RegisterTile
from compiler.target import PRESETS
from tests.compiler.workloads import matmul

TARGET = replace(PRESETS["x86-64-v3"], l1_bytes=32 << 10, l2_bytes=512 << 10, l3_bytes=32 << 20)


def chosen(m: int, n: int, k: int) -> str:
    """Under tiles of 4 rows and 3 vectors, two multiply-adds a cycle."""
    workload = matmul(m, n, k)
    anchor, store = workload.stages
    tile = RegisterTile(workload, anchor, store, TARGET, 1)
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
