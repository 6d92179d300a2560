"""The search lab on a made-up pool: times from a formula, nothing is compiled or run."""

from __future__ import annotations

import itertools
import json
import math
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from benchmarks.search import lab
from benchmarks.search.curves_plot import curves_svg
from benchmarks.search.pools import Pool, PoolFile, Row, load_pools, pool_space, samples
from benchmarks.search.record import record
from benchmarks.search.replay import candidates, replay, trials_to
from compiler.errors import InputError
from compiler.schedule.schedule import Schedule
from tests.tuner import toy
from tuner.cost_model.features import NestFeatures
from tuner.measure import Measured, MeasureResult
from tuner.phases import PhaseClock
from tuner.search.simulated import SimulatedBuilder, SimulatedRunner
from tuner.task import Task
from tuner.workbench import Workbench


def seconds(values: dict[str, object]) -> float:
    """Best at six rows of two vectors."""
    rows, vectors = int(str(values["rows"])), int(str(values["vectors"]))
    return 1e-4 * (1 + abs(math.log2(rows / 6)) + abs(math.log2(vectors / 2)))


def pool(network: str, size: int, count: int = 40) -> Pool:
    task = Task(toy.matmul(size, size, 64), toy.TARGET, 1, 1, f"matmul {size}")
    space = pool_space(Pool(network, task, ()))
    chosen = itertools.islice(samples(space), count)
    return Pool(network, task, tuple(Row(a, seconds(space.values(a))) for a in chosen))


POOLS = [pool("one", 96), pool("two", 128), pool("two", 192)]


def test_a_replay_answers_from_the_pool_only_and_repeats() -> None:
    extract = NestFeatures()
    first = replay(POOLS[0], "evolutionary", 3, 32, extract)
    assert np.array_equal(first, replay(POOLS[0], "evolutionary", 3, 32, extract))
    assert first.shape == (32,)
    assert (np.diff(first) >= 0).all()
    whole = replay(POOLS[0], "random", 0, 64, extract)  # more trials than the pool has
    assert whole[-1] == 1.0


def test_gates_leave_a_network_out_and_report_the_default() -> None:
    tasks = lab.task_samples(POOLS, NestFeatures())
    gates = lab.held_out(tasks)
    assert gates is not None
    assert (gates.tasks, gates.networks, gates.samples) == (3, 2, 120)
    assert gates.pairwise_accuracy.low <= gates.pairwise_accuracy.value <= gates.pairwise_accuracy.high
    assert gates.pairwise_accuracy.value > 0.8  # the formula holds for every network
    assert set(gates.missed) <= set(lab.BARS)
    assert gates.usual.value == pytest.approx(np.mean([t.usual for t in tasks]))
    assert lab.held_out([t for t in tasks if t.network == "two"]) is None


def test_what_was_learned_elsewhere_helps_from_the_first_trials_on() -> None:
    extract = NestFeatures()
    tasks = lab.task_samples(POOLS, extract)
    curves = lab.replay_all(POOLS, tasks, 3, 24, extract)
    assert {name: runs.shape for name, runs in curves.items()} == dict.fromkeys(curves, (9, 24))
    assert curves["pretrained"][:, 7].mean() > curves["random"][:, 7].mean()
    text = lab.report(POOLS, lab.held_out(tasks), {}, curves, 3)
    assert "3 pools of 2 networks, 120 rows" in text
    assert "pretrained" in curves_svg(curves)
    assert json.loads(json.dumps(lab.document(POOLS, None, {}, curves)))["rows"] == 120


def test_a_group_that_tells_all_is_missed() -> None:
    without = lab.ablation(lab.task_samples(POOLS, NestFeatures()))
    assert without["tile"].pairwise_accuracy.value < without["machine"].pairwise_accuracy.value
    assert {lab.group_of(name) for name in ("level3_over_l1", "nest_waste")} == {"level", "nest"}


def test_trials_to_a_share() -> None:
    curves = [np.array([0.5, 0.9, 1.0]), np.array([0.7, 1.0, 1.0])]
    assert trials_to(curves, 0.95) == 2
    assert trials_to(curves, 1.1) is None


def test_recording_goes_on_where_it_stopped(tmp_path: Path) -> None:
    task = POOLS[0].task
    space = pool_space(POOLS[0])
    PoolFile.create(tmp_path, "net", task)

    def measure(_: Task, schedule: Schedule) -> MeasureResult:
        return Measured((1e-3 * (1 + len(schedule.steps) % 3),), 0.0)

    for count in (8, 20):
        clock = PhaseClock(lambda: 0.0)
        with closing(Workbench(SimulatedBuilder(), SimulatedRunner(measure), clock)) as bench:
            (rows,) = record(tmp_path, count, 60.0, bench).values()
        assert count <= rows <= count + 1
    (found,) = load_pools(tmp_path)
    assert [row.assignment for row in found.rows][:8] == list(itertools.islice(samples(space), 8))
    assert len({row.assignment for row in found.rows}) == len(found.rows)
    assert len(candidates(found)) == len(found.rows)


def test_a_disturbed_batch_is_thrown_away(tmp_path: Path) -> None:
    PoolFile.create(tmp_path, "net", POOLS[0].task)
    slower = itertools.count(1)

    def measure(task: Task, schedule: Schedule) -> MeasureResult:
        return Measured((1e-3 * next(slower),), 0.0)

    with closing(Workbench(SimulatedBuilder(), SimulatedRunner(measure), PhaseClock(lambda: 0.0))) as bench:
        assert sum(record(tmp_path, 8, 60.0, bench).values()) == 0


def test_a_pool_of_other_code_is_read_but_does_not_grow(tmp_path: Path) -> None:
    PoolFile.create(tmp_path, "net", POOLS[0].task)
    (path,) = tmp_path.iterdir()
    path.write_text(json.dumps({**json.loads(path.read_text()), "epoch": -1}) + "\n")
    assert load_pools(tmp_path)[0].epoch == -1
    with pytest.raises(InputError, match="code generator -1"):
        PoolFile(path)


def test_a_pool_of_other_rules_is_refused(tmp_path: Path) -> None:
    PoolFile.create(tmp_path, "net", POOLS[0].task)
    (path,) = tmp_path.iterdir()
    header = {**json.loads(path.read_text()), "rules": -1}
    path.write_text(json.dumps(header) + "\n")
    with pytest.raises(InputError, match="record it again"):
        load_pools(tmp_path)
