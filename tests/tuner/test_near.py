"""Near Tasks: what they share, how far they are, and what their records are worth to another."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compiler.schedule.schedule import Schedule
from compiler.space.rules import build_space
from compiler.space.space import SearchSpace
from compiler.target import PRESETS
from tests.compiler.workloads import convolution, depthwise, matmul
from tests.tuner import toy
from tuner.database import MemoryLog
from tuner.measure import MeasureResult
from tuner.near import FARTHEST, Relatives, distance, nearest_legal, structure
from tuner.record import Relative
from tuner.search.simulated import SimulatedBuilder, SimulatedRunner
from tuner.session import SessionOptions, SessionResult, TuningSession
from tuner.task import Task

TARGET = PRESETS["x86-64-v3"]


def space_of(task: Task) -> SearchSpace:
    return build_space(task.workload, task.target, task.threads)


def conv(size: int, channels: int, maps: int, **fields: object) -> Task:
    return replace(Task(convolution(size, channels, maps, 3), TARGET, 1, 1, "conv"), **fields)  # type: ignore[arg-type]


def relative(task: Task, **changed: int) -> tuple[Relative, dict[str, object]]:
    """A record of a Task that has these values of its knobs."""
    space = space_of(task)
    values = space.values(space.default) | changed
    return Relative(task, space.build(values)), values


def test_a_structure_is_the_same_for_all_extents_and_no_other_operator() -> None:
    assert structure(convolution(28, 64, 128, 3)) == structure(convolution(14, 32, 256, 3))
    assert (
        len({structure(w) for w in (convolution(28, 64, 64, 3), depthwise(28, 64), matmul(64, 64, 64))}) == 3
    )


def test_distance_counts_doublings() -> None:
    one = conv(28, 64, 64)
    assert distance(one, one) == 0.0
    wider = distance(one, conv(28, 64, 128)) - distance(one, one)
    assert distance(one, conv(28, 64, 256)) == pytest.approx(2 * wider)
    assert (
        0 < distance(one, replace(one, threads=2)) < distance(one, replace(one, target=PRESETS["x86-64-v4"]))
    )


def test_a_seed_has_the_values_of_the_nearest_record() -> None:
    near, values = relative(conv(28, 64, 128), rows=3, vectors=4, unroll=2)
    far, _ = relative(conv(28, 64, 32), rows=1, vectors=1)
    other, _ = relative(replace(conv(28, 64, 64), workload=depthwise(28, 64)))
    task = conv(28, 64, 96)
    space = space_of(task)
    seeds = Relatives([far, other, near], space_of).seeds(task, space)
    assert len(seeds) == 2
    chosen = space.values(seeds[0])
    assert {name: chosen[name] for name in ("rows", "vectors", "unroll")} == {
        "rows": 3,
        "vectors": 4,
        "unroll": 2,
    }
    assert set(chosen) == set(values)
    assert all(space.is_legal(seed) for seed in seeds)


def test_neither_its_own_record_nor_a_far_one_is_near() -> None:
    task = conv(28, 64, 96)
    own, _ = relative(task)
    far, _ = relative(conv(28, 64, 2))
    assert distance(task, far.task) < FARTHEST
    farther, _ = relative(conv(1024, 2048, 2))
    assert distance(task, farther.task) > FARTHEST
    assert Relatives([own, farther], space_of).seeds(task, space_of(task)) == []


def test_values_that_do_not_fit_are_moved_until_they_are_legal() -> None:
    wide, narrow = (
        space_of(replace(conv(28, 64, 96), target=PRESETS["x86-64-v4"])),
        space_of(conv(28, 64, 96)),
    )
    values = wide.values(wide.default) | {"rows": 9, "vectors": 3}  # 27 accumulators of 32 registers
    found = nearest_legal(narrow, values)
    assert found is not None
    assert narrow.is_legal(found)
    assert narrow.values(found)["rows"] != 9 or narrow.values(found)["vectors"] != 3


class Recorded:
    """A simulated Device that remembers the factors of what it measured, by the size of the Task."""

    def __init__(self) -> None:
        self.log = MemoryLog()
        self.measured: list[tuple[str, tuple[int, ...]]] = []

    def tune(self, *sizes: int, trials: int | None = None) -> SessionResult:
        self.measured.clear()
        options = SessionOptions(trials=trials, strategy="random", patience=3)
        tasks = [toy.task(size) for size in sizes]
        runner = SimulatedRunner(self._simulate)
        return TuningSession(
            tasks, SimulatedBuilder(), runner, self.log, options, spaces=lambda task: toy.space()
        ).run()

    def _simulate(self, task: Task, schedule: Schedule) -> MeasureResult:
        self.measured.append((task.name, toy.factors(schedule)))
        return toy.simulate(task, schedule)


def test_a_new_task_begins_with_the_best_of_a_near_one() -> None:
    device = Recorded()
    device.tune(64, trials=64)
    (record,) = device.log.records([toy.task(64).key]).values()
    device.tune(128, trials=2)
    default = toy.factors(toy.default())
    assert [factors for _, factors in device.measured[:2]] == [default, toy.factors(record.schedule)]


def test_a_model_changed_in_one_layer_tunes_only_that_one() -> None:
    device = Recorded()
    device.tune(32, 64, 96)
    result = device.tune(32, 64, 128)
    assert [task.cached for task in result.tasks] == [True, True, False]
    assert [task.trials > 0 for task in result.tasks] == [False, False, True]
    assert {name for name, _ in device.measured} == {"toy 128"}
    near = [device.log.records([toy.task(size).key])[toy.task(size).key] for size in (96, 64)]
    begun = [factors for _, factors in device.measured[:3]]
    assert begun[0] == toy.factors(toy.default())
    assert set(begun[1:]) >= {toy.factors(record.schedule) for record in near} - {begun[0]}
