from __future__ import annotations

import math
import random
import re
from pathlib import Path

import numpy as np
import pytest

from compiler.loop.ir import LoopKind
from compiler.schedule.primitives import replay
from compiler.schedule.schedule import Schedule
from compiler.schedule.steps import Bind, ComputeAt, Fuse, Pack, Reorder, Split, Step
from compiler.space.rules import build_space
from compiler.target import PRESETS
from compiler.workload.ir import Workload
from tests.compiler.attention import attention
from tests.compiler.integers import integer_matmul
from tests.compiler.workloads import (
    depthwise,
    gather_rows,
    lstm_cell,
    max_pool,
    mean,
    padded_convolution,
    product,
    softmax,
)
from tests.tuner import toy
from tuner.candidate import Candidate
from tuner.cost_model.concrete import concrete_nest
from tuner.cost_model.features import FEATURE_NAMES, NestFeatures
from tuner.cost_model.nest import accesses
from tuner.cost_model.parametric import Unfollowed
from tuner.task import Task

TASK = Task(toy.matmul(48, 64, 32), toy.TARGET, 2, 1, "matmul")
LANES = 16


def steps(rows: int, vectors: int) -> list[Step]:
    """Tiles of rows x vectors accumulators, parallel over rows, the reduction inside."""
    return [
        Split("epilogue", "i", rows),
        Split("epilogue", "j", vectors * LANES),
        Split("epilogue", "j.i", LANES),
        Reorder("epilogue", ("i.o", "j.o", "i.i", "j.i.o", "j.i.i")),
        ComputeAt("anchor", "epilogue", "j.o"),
        Split("anchor", "j", LANES),
        Reorder("anchor", ("r", "i", "j.o", "j.i")),
        Bind("anchor", "i", LoopKind.UNROLLED),
        Bind("anchor", "j.o", LoopKind.UNROLLED),
        Bind("anchor", "j.i", LoopKind.VECTOR),
        Bind("epilogue", "i.o", LoopKind.PARALLEL),
        Pack("anchor", "w"),
    ]


def named(task: Task, schedule: Schedule) -> dict[str, float]:
    (values,) = NestFeatures()(task, [Candidate(schedule)])
    return dict(zip(FEATURE_NAMES, values, strict=True))


def log(value: float) -> float:
    return math.log2(value + 1)


def test_the_tile_is_what_the_schedule_says() -> None:
    found = named(TASK, Schedule(tuple(steps(6, 2))))
    assert (found["tile_vector"], found["tile_rows"], found["tile_vectors"], found["tile_accumulators"]) == (
        16,
        6,
        2,
        12,
    )
    # six broadcasts of x and two vectors of w for twelve multiplications
    assert found["tile_loads_per_multiplication"] == pytest.approx(8 / 12)
    assert (found["tile_input_stride"], found["tile_constant_stride"], found["tile_output_stride"]) == (
        0,
        1,
        1,
    )
    assert found["tile_reduction"] == 1
    assert found["nest_packed"] == 1
    assert found["nest_attached_at"] == 2
    assert found["nest_region"] == pytest.approx(log(6 * 32))
    assert found["nest_waste"] == 0.0


def test_the_last_tile_is_told_across_and_along_the_vectors() -> None:
    """48 rows in tiles of 6 and of 7, 64 columns in tiles of two vectors."""
    even, ragged = (named(TASK, Schedule(tuple(steps(rows, 2)))) for rows in (6, 7))
    assert (even["tile_rows_tiles"], even["tile_rows_last"]) == (3.0, 1.0)
    assert (ragged["tile_rows_tiles"], ragged["tile_rows_last"]) == pytest.approx((math.log2(7), 6 / 7))
    assert (ragged["tile_vectors_tiles"], ragged["tile_vectors_last"]) == (1.0, 1.0)
    assert ragged["tile_reduction_last"] == 1.0


def test_an_instruction_is_part_of_the_tile() -> None:
    workload = integer_matmul(24, 64, 32)
    space = build_space(workload, PRESETS["x86-64-v3"], 1)
    values = {**space.values(space.default), "rows": 6, "vectors": 2}
    found = named(Task(workload, PRESETS["x86-64-v3"], 1, 1, "matmul"), space.build(values))
    # Two groups of two bytes stand in the body.
    assert (found["tile_rows"], found["tile_vectors"], found["tile_reduction"]) == (6, 2, 4)
    assert found["nest_products"] == 1.0  # two products by a multiplication and an addition
    assert values["instruction"] == "vpmaddwd.256"


def test_levels_go_from_the_inside_out_with_the_bytes_that_they_touch() -> None:
    found = named(TASK, Schedule(tuple(steps(6, 2))))
    trips = [found[f"level{n}_trips"] for n in (1, 2, 3, 4)]
    assert trips == pytest.approx([log(32), log(2), log(8), 0.0])
    assert [found[f"level{n}_reduces"] for n in (1, 2, 3)] == [1, 0, 0]
    moves = [[found[f"level{n}_moves_{c}"] for c in ("input", "constant", "output")] for n in (1, 2, 3)]
    assert moves == [[1, 1, 0], [0, 1, 1], [1, 0, 1]]
    # inside the reduction: six rows of one element of x (a line each), 32 floats of w, six lines of two vectors of t
    assert found["level1_constant_bytes"] == pytest.approx(log(32 * 32 * 4))
    assert found["level1_input_bytes"] == pytest.approx(log(6 * 32 * 4))
    assert found["level1_output_bytes"] == pytest.approx(log(6 * 32 * 4))
    assert found["level2_constant_bytes"] == pytest.approx(log(32 * 64 * 4))
    assert found["level3_input_bytes"] == pytest.approx(log(48 * 32 * 4))


def test_threads_waste_and_pressure_show() -> None:
    found = named(TASK, Schedule(tuple(steps(10, 3))))
    assert found["parallel_extent"] == pytest.approx(log(5))
    assert found["parallel_balance"] == pytest.approx(5 / 6)
    assert found["nest_waste"] == pytest.approx(math.log2(50 * 96 / (48 * 64)))
    assert found["tile_pressure"] == pytest.approx((30 + 10 + 1) / 32)
    assert found["tile_spill"] == pytest.approx(9)


def test_a_fused_loop_moves_what_its_parts_move() -> None:
    split = [step for step in steps(6, 2) if step.stage == "epilogue" and isinstance(step, Split | Reorder)]
    anchor = [step for step in steps(6, 2) if step.stage == "anchor" and not isinstance(step, ComputeAt)]
    loop = "i.o*j.o"
    fused = [Fuse("epilogue", "i.o", "j.o"), ComputeAt("anchor", "epilogue", loop)]
    schedule = (*split, *fused, *anchor, Bind("epilogue", loop, LoopKind.PARALLEL))
    found = named(TASK, Schedule(schedule))
    assert found["level2_trips"] == pytest.approx(log(16))
    assert [found[f"level2_moves_{c}"] for c in ("input", "constant", "output")] == [1, 1, 1]
    assert found["level2_constant_bytes"] == pytest.approx(log(32 * 64 * 4))
    assert found["parallel_extent"] == pytest.approx(log(16))


def test_spans_agree_with_the_concrete_loops() -> None:
    """What an access touches inside each loop, counted by running the loops."""
    state = replay(TASK.workload, Schedule(tuple(steps(5, 2))))
    anchor = state.workload.anchor
    nest = concrete_nest(state, anchor.name)
    x = nest.accesses[0]
    assert nest.elements(x).tolist() == [[48 * 32, 5 * 32, 5 * 32, 5, 1, 1, 1]]
    assert nest.limits.tolist() == [[10, 2, 32, 5, 2, 16]]


@pytest.mark.parametrize("threads", [1, 4])
def test_every_candidate_of_a_real_space_has_finite_features_of_one_width(threads: int) -> None:
    task = Task(toy.matmul(100, 72, 40), toy.TARGET, threads, 1, "matmul")
    space, rng, extract = build_space(task.workload, task.target, threads), random.Random(0), NestFeatures()
    schedules = {space.schedule(space.sample(rng)) for _ in range(40)}
    rows = extract(task, [Candidate(schedule) for schedule in schedules])
    assert rows.shape == (len(schedules), len(FEATURE_NAMES))
    assert np.isfinite(rows).all()
    assert len(np.unique(rows, axis=0)) > 0.9 * len(schedules)
    assert len(set(FEATURE_NAMES)) == len(FEATURE_NAMES)


@pytest.mark.parametrize(
    "workload",
    [
        toy.matmul(100, 72, 640),  # sums in blocks
        integer_matmul(24, 64, 32),  # instructions
        padded_convolution(14, 32, 32, 3),
        depthwise(14, 32),
        lstm_cell(4, 32, 24),
        max_pool(14, 32),
        softmax(40, 96),
        gather_rows(300, 64, 10),
        product(3, 24, 40, 32),
        mean(196, 96),  # sums of lines, apart
        attention(3, 37, 37, 16),  # two products, rows between them
    ],
    ids=[
        "blocks",
        "bytes",
        "winograd",
        "depthwise",
        "gates",
        "pool",
        "rows",
        "gather",
        "batch",
        "lines",
        "attention",
    ],
)
def test_candidates_together_have_the_features_of_each_alone(
    workload: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = Task(workload, PRESETS["x86-64-v3"], 2, 1, "any")
    space, rng = build_space(workload, task.target, 2), random.Random(0)
    candidates = [Candidate(space.schedule(space.sample(rng))) for _ in range(20)]
    extract = NestFeatures()
    together = extract(task, candidates)
    monkeypatch.setattr("tuner.cost_model.heavy.parametric_nests", _unfollowed)
    alone = np.concatenate([extract(task, [candidate]) for candidate in candidates])
    np.testing.assert_allclose(together, alone, rtol=1e-9, atol=1e-9)


def _unfollowed(*_: object) -> None:
    raise Unfollowed


def test_the_sum_in_blocks_is_what_counts() -> None:
    task = Task(toy.matmul(100, 72, 640), PRESETS["x86-64-v3"], 1, 1, "matmul")
    space = build_space(task.workload, task.target, 1)
    values = {**space.values(space.default), "depth": 128, "order": "outside", "unroll": 1}
    found = named(task, space.build(values))
    assert found["work_reductions"] == pytest.approx(log(640))
    assert found["level1_trips"] == pytest.approx(log(128))
    assert found["level1_reduces"] == 1


def test_an_illegal_schedule_has_none() -> None:
    illegal = Candidate(Schedule((Split(TASK.workload.anchor.name, "nowhere", 2),)))
    rows = NestFeatures()(TASK, [illegal, Candidate(Schedule(tuple(steps(6, 2)))), illegal])
    assert np.isnan(rows).all(axis=1).tolist() == [True, False, True]


def test_a_looked_up_row_is_one_place_wherever_it_lies() -> None:
    workload = gather_rows(300, 64, 10)
    table = next(a for a in accesses(workload, workload.stages[0]) if a.buffer == "x1")
    np.testing.assert_array_equal(table.matrix, [[[1, 0], [0, 1]]])


def test_every_feature_is_documented() -> None:
    page = (Path(__file__).parents[3] / "docs" / "features.md").read_text()
    documented = re.findall(r"^\| `(\w+(?:<n>)?\w*)` \|", page, re.MULTILINE)
    names = [re.sub(r"^level\d", "level<n>", name) for name in FEATURE_NAMES]
    assert documented == list(dict.fromkeys(names))
