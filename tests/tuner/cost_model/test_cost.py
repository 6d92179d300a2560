from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from compiler.pipeline import build_nest
from compiler.space.rules import build_space
from compiler.symbol import size_at
from compiler.target import PRESETS
from tests.compiler.attention import attention
from tests.tuner import toy
from tuner.candidate import Candidate
from tuner.cost_model.cost import (
    RATES,
    Cycles,
    other_cycles,
    product_cycles,
    product_work,
    rates_of,
    values_of,
)
from tuner.cost_model.features import FEATURE_NAMES, NestFeatures
from tuner.cost_model.heavy import HeavyNests
from tuner.cost_model.tile import Tile, tile_of
from tuner.task import Task

TARGET = PRESETS["x86-64-v3"]
TASK = Task(toy.matmul(96, 128, 256), TARGET, 1, 1, "matmul")


def candidate(task: Task, **values: object) -> Candidate:
    space = build_space(task.workload, task.target, task.threads)
    return Candidate(space.build({**space.values(space.default), **values}))


def cost(task: Task, **values: object) -> dict[str, float]:
    (row,) = NestFeatures()(task, [candidate(task, **values)])
    return {
        name: 2**value for name, value in zip(FEATURE_NAMES, row, strict=True) if name.startswith("cost_")
    }


def tile(task: Task, **values: object) -> Tile:
    (heavy, *_) = HeavyNests()(task, [candidate(task, **values)])
    return tile_of(heavy.nests, task.target, heavy.stage)


def test_a_tile_that_fills_the_registers_is_predicted_near_the_least() -> None:
    tiles = ((6, 2, 4), (1, 1, 1), (14, 1, 4))
    good, thin, tall = (cost(TASK, rows=r, vectors=v, unroll=u)["cost_compute"] for r, v, u in tiles)
    assert 1.0 < good < 1.7
    assert thin > 3 * good  # one sum after the other
    assert tall > 1.15 * good  # a load for each multiplication


def test_what_does_not_fit_a_cache_passes_it_again() -> None:
    small, large = (Task(toy.matmul(n, n, n), TARGET, 1, 1, f"{n}") for n in (384, 1536))
    inside, outside = (cost(task, rows=6, vectors=2, order="inside") for task in (small, large))
    assert outside["cost_l2"] > 3 * inside["cost_l2"]
    assert inside["cost_all"] >= inside["cost_compute"]


def test_constants_come_from_memory_in_every_run() -> None:
    """All that these touch fits the caches; constants that fit the first one stay there."""
    passing = []
    for k, n in ((128, 256), (32, 64)):
        task = Task(toy.matmul(96, k, n), TARGET, 1, 1, "matmul")
        (heavy,) = HeavyNests()(task, [candidate(task, rows=6, vectors=2)])
        tiled = tile_of(heavy.nests, TARGET, heavy.stage)
        passing.append(product_work(heavy.nests, tiled, TARGET, 1, heavy.stage).bytes[0, 2])
    assert passing == pytest.approx([4 * 128 * 256, 0])


def test_rows_a_page_apart_fall_into_one_set() -> None:
    apart, close = (Task(toy.matmul(96, 128, k), TARGET, 1, 1, f"{k}") for k in (1024, 992))
    assert tile(apart, rows=12, vectors=1).conflict[0] == pytest.approx(12 / 8)
    assert tile(close, rows=12, vectors=1).conflict[0] < 1


@pytest.mark.parametrize(
    ("rows", "vectors", "unroll"), [(1, 1, 8), (1, 1, 9), (1, 2, 2), (2, 1, 4), (2, 2, 2), (4, 2, 4)]
)
def test_sums_are_spread_as_the_compiler_spreads_them(rows: int, vectors: int, unroll: int) -> None:
    chosen = candidate(TASK, rows=rows, vectors=vectors, unroll=unroll)
    buffers = build_nest(TASK.workload, chosen.schedule).buffers
    made = next((size_at(b.shape[0], {}) for b in buffers if ".p" in b.name), 1)
    assert tile(TASK, rows=rows, vectors=vectors, unroll=unroll).copies[0] == made


def test_sums_that_are_spread_wait_less() -> None:
    spread, waiting = (cost(TASK, rows=1, vectors=1, unroll=u) for u in (8, 9))
    assert waiting["cost_latency"] > 2 * spread["cost_latency"]


def test_what_is_left_of_a_line_passes_once() -> None:
    """A loop that walks along lines finds in the cache what the step before has brought there."""
    task = Task(toy.matmul(96, 2048, 256), TARGET, 1, 1, "deep")
    steps, lines = (cost(task, rows=6, vectors=2, unroll=u)["cost_l1"] for u in (1, 16))
    assert steps == pytest.approx(lines, rel=0.1)


def test_both_products_of_attention_are_seen() -> None:
    """What the second product's tile does changes the prediction as the first's does."""
    workload = attention(2, 64, 64, 32)
    task = Task(workload, TARGET, 1, 1, "attention")
    space, rng = build_space(workload, TARGET, 1), random.Random(0)
    found = HeavyNests()(task, [Candidate(space.schedule(space.sample(rng))) for _ in range(20)])
    assert {heavy.product for heavy in found} == {0, 1}
    assert sorted(place for heavy in found if heavy.is_anchor for place in heavy.places) == list(range(20))
    assert sorted(place for heavy in found if not heavy.is_anchor for place in heavy.places) == list(
        range(20)
    )
    narrow, good = (cost(task, **{"rows.0": 1, "vectors.0": 1, "rows.1": 4, "vectors.1": v}) for v in (1, 2))
    assert narrow["cost_compute"] > good["cost_compute"]


def test_a_cpu_that_halves_its_vectors_takes_longer_for_them() -> None:
    whole = replace(PRESETS["x86-64-v4"], cpu="x86-64-v4")
    first, second = (
        cost(replace(TASK, target=replace(whole, cpu=name)), rows=6, vectors=2)["cost_compute"]
        for name in (whole.cpu, "znver4")
    )
    # Over the least that each could take: loads and stores are halved too.
    assert second == pytest.approx(first, abs=0.2)
    heavy = HeavyNests()(TASK, [candidate(TASK, rows=6, vectors=2)])[0]
    work = product_work(heavy.nests, tile_of(heavy.nests, TARGET, heavy.stage), TARGET, 1, heavy.stage)
    assert (
        product_cycles(replace(work, passes=2.0), RATES).busy[0] > 1.5 * product_cycles(work, RATES).busy[0]
    )


def test_what_all_lanes_share_is_dearer_to_load_where_its_rate_says_so() -> None:
    heavy = HeavyNests()(TASK, [candidate(TASK, rows=6, vectors=2)])[0]
    work = product_work(heavy.nests, tile_of(heavy.nests, TARGET, heavy.stage), TARGET, 1, heavy.stage)
    per_step = work.tile.loads / work.tile.reduction
    assert (per_step[0], (work.tile.whole / work.tile.reduction)[0]) == (8, 2)  # six rows, two vectors
    alike = replace(RATES, single=RATES.load)
    dear = product_cycles(work, replace(alike, single=2 * RATES.load)).loads[0]
    assert dear == pytest.approx(product_cycles(work, alike).loads[0] * (6 * 2 + 2) / 8)


def test_a_core_begins_the_next_sums_where_those_of_a_tile_are_few() -> None:
    heavy = HeavyNests()(TASK, [candidate(TASK, rows=1, vectors=1)])[0]
    work = product_work(heavy.nests, tile_of(heavy.nests, TARGET, heavy.stage), TARGET, 1, heavy.stage)
    short, long = replace(work, kept=np.ones(1)), replace(work, kept=np.full(1, 1000.0))
    ahead, near = replace(RATES, window=300.0), replace(RATES, window=1.0)
    assert product_cycles(short, ahead).latency[0] < 0.2 * product_cycles(short, near).latency[0]
    assert product_cycles(long, ahead).latency[0] == product_cycles(long, RATES).latency[0]


def test_cycles_of_several_products_add_up() -> None:
    cycles = Cycles.none(3)
    more = replace(Cycles.none(2), busy=np.array([1.0, 2.0]), l3=np.array([4.0, 8.0]))
    cycles.add([2, 0], more)
    cycles.add([0, 1, 2], other_cycles(np.full(3, 160.0), TARGET, RATES))
    assert cycles.busy.tolist() == [2.0, 0.0, 1.0]
    assert cycles.memory.tolist() == [8.0, 0.0, 4.0]
    assert cycles.compute == pytest.approx(cycles.busy + 160 / 8 * RATES.other)


def test_rates_are_an_array_and_back() -> None:
    other = replace(RATES, load=7.0, together=2.0)
    assert rates_of(values_of(other)) == other
    heavy = HeavyNests()(TASK, [candidate(TASK, rows=6, vectors=2)])[0]
    work = product_work(heavy.nests, tile_of(heavy.nests, TARGET, heavy.stage), TARGET, 1, heavy.stage)
    assert product_cycles(work, other).loads[0] > product_cycles(work, RATES).loads[0]
