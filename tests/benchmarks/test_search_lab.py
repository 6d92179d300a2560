"""The search lab on a made-up pool: times from a formula, nothing is compiled or run."""

from __future__ import annotations

import itertools
import json
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from benchmarks.search import lab
from benchmarks.search.__main__ import main as search_main
from benchmarks.search.curves_plot import curves_svg
from benchmarks.search.fit import fitted, measured, residual
from benchmarks.search.pools import (
    Pool,
    PoolFile,
    Row,
    assignment_at,
    load_pools,
    place_of,
    pool_space,
    samples,
    settled,
)
from benchmarks.search.record import BATCH, network_tasks, record
from benchmarks.search.replay import PoolSpace, PoolVariation, candidates, replay, trials_to
from benchmarks.search.settle import FRONTS, PROPOSED, settle
from compiler.errors import InputError
from compiler.schedule.schedule import Schedule
from compiler.space.rules import build_space
from compiler.space.space import Assignment, Value
from compiler.target import PRESETS
from examples.networks import filled
from tests.compiler.workloads import padded_convolution, windows
from tests.tuner import toy
from tuner.candidate import Candidate
from tuner.cost_model.cost import RATES
from tuner.cost_model.features import FEATURE_NAMES, NestFeatures
from tuner.cost_model.relative import NAMES
from tuner.cost_model.stored import load_model
from tuner.measure import FailureKind, Measured, MeasureFailed, MeasureResult
from tuner.pairs import FEWEST
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
    rows = tuple(Row(a, seconds(space.values(a)), searched=i % 4 == 3) for i, a in enumerate(chosen))
    return Pool(network, task, rows)


POOLS = [pool("one", 96), pool("two", 128), pool("two", 192)]
SAMPLES = lab.task_samples(POOLS, least=30)


def test_a_replay_answers_from_the_pool_only_and_repeats() -> None:
    rows = SAMPLES[0].features
    first = replay(POOLS[0], rows, "evolutionary", 3, 32)
    assert first.asked == replay(POOLS[0], rows, "evolutionary", 3, 32).asked
    assert len(set(first.asked)) == len(first.curve) == 32
    assert (np.diff(first.curve) >= 0).all()
    whole = replay(POOLS[0], rows, "random", 0, 64)  # more trials than the pool has
    assert whole.curve[-1] == 1.0
    assert len(whole.asked) < len(whole.curve) == 64


def test_a_replayed_mutant_is_the_nearest_of_the_pool() -> None:
    whole = pool_space(POOLS[0])
    members = tuple(row.assignment for row in POOLS[0].rows)
    space = PoolSpace(whole.knobs, whole.default, whole.legal, whole.build, pool=members)
    variation, rng = PoolVariation(space, whole), random.Random(0)
    for _ in range(50):
        mutant = variation.mutate(whole.default, rng)
        assert mutant in members
        assert mutant != whole.default
    assert variation._nearest(members[7], members[0]) == members[7]


def test_a_warm_replay_begins_with_the_best_of_other_networks() -> None:
    seeds = lab.near_seeds(POOLS)
    for number, source in ((0, 1), (1, 0), (2, 0)):
        best = min(POOLS[source].rows, key=lambda row: row.seconds or math.inf).assignment
        there = pool_space(POOLS[source]).values(best)
        here = pool_space(POOLS[number]).values(seeds[number][0])
        assert (here["rows"], here["vectors"]) == (there["rows"], there["vectors"])
    rows, space = SAMPLES[2].features, pool_space(POOLS[2])
    members = [row.assignment for row in POOLS[2].rows]
    chosen = min(range(len(members)), key=lambda i: POOLS[2].rows[i].seconds or math.inf)
    curve = replay(POOLS[2], rows, "evolutionary", 0, 2, near=[members[chosen]]).curve
    assert curve[0] < curve[1] == 1.0
    assert space.default == members[0]


def test_gates_leave_a_network_out_and_report_the_default() -> None:
    gates = lab.held_out(SAMPLES)
    assert gates is not None
    assert (gates.tasks, gates.groups, gates.samples) == (3, 2, 120)
    assert gates.pairwise_accuracy.low <= gates.pairwise_accuracy.value <= gates.pairwise_accuracy.high
    assert gates.pairwise_accuracy.value > 0.8  # the formula holds for every network
    assert set(gates.missed) <= set(lab.BARS)
    assert gates.usual.value == pytest.approx(np.mean([t.throughput[t.default] for t in SAMPLES]))
    # Who chooses by what other networks taught may lead, and never falls behind.
    assert gates.instant.value >= gates.usual.value
    assert set(gates.by_task) == {task.key for task in SAMPLES}
    assert lab.held_out([t for t in SAMPLES if t.group == "two"]) is None


def test_a_task_of_too_few_samples_only_teaches() -> None:
    few = pool("three", 64)  # 30 of its 40 rows are uniform samples
    assert (lab.is_judged(few, 30), lab.is_judged(few, 31), lab.is_judged(few)) == (True, False, False)
    assert not lab.is_judged(replace(few, network=lab.SHAPES), 30)
    every = tuple(Row(a, 1e-3) for a in samples(pool_space(few)))
    assert lab.is_judged(replace(few, rows=every), pool_space(few).size + 1)
    (teaches,) = lab.task_samples([few], least=31)
    gates = lab.held_out([*SAMPLES, teaches])
    assert gates is not None
    assert (gates.tasks, gates.groups, set(gates.by_task)) == (4, 2, {task.key for task in SAMPLES})


def test_trees_may_learn_from_other_samples_than_those_that_judge_them() -> None:
    gates = lab.held_out(SAMPLES)
    assert gates is not None
    assert lab.held_out(SAMPLES, taught=SAMPLES) == gates
    misled = lab.held_out(
        SAMPLES, taught=[replace(t, throughput=t.throughput.min() / t.throughput) for t in SAMPLES]
    )
    assert misled is not None
    assert misled.pairwise_accuracy.value < gates.pairwise_accuracy.value
    assert misled.usual == gates.usual


def test_only_what_was_offered_can_be_taken_without_measuring() -> None:
    unreachable = [replace(t, offered=t.throughput < 0.9) for t in SAMPLES]
    gates = lab.held_out(unreachable)
    assert gates is not None
    assert gates.instant.value < 0.9


def test_a_kind_of_machine_is_left_out_where_there_are_two() -> None:
    assert lab.leave_machine_out(POOLS, SAMPLES) is None
    other = [replace(p, task=replace(p.task, target=PRESETS["x86-64-v3"])) for p in POOLS]
    gates = lab.leave_machine_out([*POOLS, *other], [*SAMPLES, *SAMPLES])
    assert gates is not None
    assert gates.groups == 2


@pytest.mark.slow
def test_what_was_learned_elsewhere_helps_from_the_first_trials_on() -> None:
    trees = lab.left_out(SAMPLES)
    curves = lab.replay_all(POOLS, SAMPLES, 3, 24, trees)
    assert {name: runs.shape for name, runs in curves.items()} == dict.fromkeys(curves, (9, 24))
    assert curves["warm"][:, 7].mean() > curves["random"][:, 7].mean()
    gates = lab.held_out(SAMPLES, trees=trees)
    assert gates == lab.held_out(SAMPLES)
    found = lab.Findings(POOLS, gates, None, {"tile": gates} if gates else {}, curves, 3)
    assert "3 pools of 2 networks, 120 rows" in found.text()
    assert "a kind of machine at a time: nothing" in found.text()
    assert "warm" in curves_svg(curves)
    assert json.loads(json.dumps(found.json()))["rows"] == 120


def test_papers_say_what_the_samples_came_from() -> None:
    seen = lab.seen(POOLS)
    assert seen.threads == {1}
    assert {"rows", "vectors", "order"} <= seen.knobs
    assert len(seen.machines) == 1
    workload = padded_convolution(14, 32, 32, 3)
    task = Task(workload, PRESETS["x86-64-v3"], 1, 1, "conv")
    space = build_space(workload, task.target, 1)
    begin = [space.default, *space.starts]
    rows = [Row(a, 1e-3, error=(1 + i) * 1e-6) for i, a in enumerate(begin)]
    errors = lab.seen([Pool("net", task, (*rows, *(replace(row, error=0.0) for row in rows)))]).errors
    place = next(i for i, a in enumerate(begin) if space.values(a)["algorithm"] == "winograd2")
    assert errors["winograd", (2,)] == pytest.approx((1 + place) * 1e-6)
    wrong = replace(rows[place], seconds=None, failure=FailureKind.WRONG_OUTPUT)
    assert ("winograd", (2,)) not in lab.seen([Pool("net", task, (*rows, wrong))]).errors


@pytest.mark.slow
def test_a_group_that_tells_all_is_missed() -> None:
    """Times that follow from one column of the group."""
    rng, tells = np.random.default_rng(0), NAMES.index("nest_loops")
    made = []
    for number, task in enumerate((*SAMPLES, *SAMPLES)):
        rows = rng.random((40, len(NAMES)))
        rows[:, NAMES.index("cost_all")] = 0.0
        throughput = np.exp(rows[:, tells] - rows[:, tells].max())
        every = np.ones(40, dtype=np.bool_)
        made.append(
            replace(
                task, key=f"{number}", features=rows, throughput=throughput, offered=every, accurate=every
            )
        )
    without = lab.ablation(made)
    assert without["nest"].pairwise_accuracy.value < 0.6
    assert min(gates.pairwise_accuracy.value for name, gates in without.items() if name != "nest") > 0.75
    assert {lab.group_of(name) for name in ("level3_over_l1", "beside_nest_waste")} == {"level", "nest"}


def test_rates_are_found_again_from_times_that_follow_them() -> None:
    """Times under rates where loads cost far more than they are taken to."""
    true, made = replace(RATES, single=3.0), pool("one", 96, 60)
    timed = [measured(made), measured(pool("two", 128, 60))]
    tasks = [replace(task, seconds=1e-9 * task.cycles(true)) for task in timed]
    found = fitted(tasks, RATES, evaluations=600)
    assert np.mean([residual(task, found) for task in tasks]) < 0.5 * np.mean(
        [residual(t, RATES) for t in tasks]
    )
    assert found.single > 1.5 * RATES.single


def test_trials_to_a_share() -> None:
    curves = [np.array([0.5, 0.9, 1.0]), np.array([0.7, 1.0, 1.0])]
    assert trials_to(curves, 0.95) == 2
    assert trials_to(curves, 1.1) is None


def bench_of(measure: Callable[[Task, Schedule], MeasureResult]) -> Workbench:
    return Workbench(SimulatedBuilder(), SimulatedRunner(measure), PhaseClock(lambda: 0.0))


def quiet(_: Task, schedule: Schedule) -> MeasureResult:
    return Measured((1e-3 * (1 + len(schedule.steps) % 3),), 2e-7)


def test_recording_goes_on_where_it_stopped(tmp_path: Path) -> None:
    PoolFile.create(tmp_path, "net", POOLS[0].task)
    (path,) = tmp_path.iterdir()
    for count in (30, 90):
        with closing(bench_of(quiet)) as bench:
            (rows,) = record([PoolFile(path)], count, 60.0, bench).values()
        assert count <= rows <= count + 1
    (found,) = load_pools(tmp_path)
    space = pool_space(POOLS[0])
    assert found.rows[0].assignment == space.default
    uniform, searched = ([r.assignment for r in found.rows if r.searched is s] for s in (False, True))
    assert uniform == list(itertools.islice(samples(space), len(uniform) + 20))[: len(uniform)]
    assert len(searched) >= 10
    assert len({row.assignment for row in found.rows}) == len(found.rows)
    assert {row.error for row in found.rows} == {2e-7}
    assert len(candidates(found)) == len(found.rows)


def test_pools_grow_in_turn_and_failures_are_kept(tmp_path: Path) -> None:
    for task in (POOLS[0].task, POOLS[1].task):
        PoolFile.create(tmp_path, "net", task)
    default = pool_space(POOLS[0]).schedule(pool_space(POOLS[0]).default)

    def measure(task: Task, schedule: Schedule) -> MeasureResult:
        broken = len(schedule.steps) % 2 == 0 and schedule != default
        return MeasureFailed(FailureKind.CRASH, "broken") if broken else quiet(task, default)

    with closing(bench_of(measure)) as bench:
        counts = record([PoolFile(path) for path in sorted(tmp_path.iterdir())], 25, 60.0, bench, ahead=2)
    assert all(25 <= count <= 26 for count in counts.values())
    rows = [row for found in load_pools(tmp_path) for row in found.rows]
    assert {row.failure for row in rows if row.seconds is None} <= {"crash"}


def recorded(folder: Path, count: int, measure: Callable[[int], float]) -> list[Row]:
    """The rows of a pool whose nth measurement took so long; the first of each batch is its default."""
    PoolFile.create(folder, "net", POOLS[0].task)
    (path,) = folder.iterdir()
    timed = itertools.count()
    with closing(bench_of(lambda _, __: Measured((measure(next(timed)),), 0.0))) as bench:
        record([PoolFile(path)], count, 60.0, bench)
    default, *others = PoolFile(path).rows
    assert default.assignment == pool_space(POOLS[0]).default
    return others


def test_what_slows_a_batch_and_its_default_alike_is_the_moment(tmp_path: Path) -> None:
    def measure(number: int) -> float:
        batch, place = divmod(number, 1 + BATCH)
        return (1e-3 if place == 0 else 3e-3) * (1 + batch % 3)

    others = recorded(tmp_path, 8 * BATCH, measure)
    assert len(others) == 8 * BATCH
    seconds = [row.seconds for row in others]
    assert seconds == pytest.approx([seconds[0]] * len(others), rel=1e-3)


def test_a_pool_stays_beside_the_default_that_it_began_with(tmp_path: Path) -> None:
    """What the rules pick since is measured too, also where the pool is full."""
    recorded(tmp_path, BATCH, lambda _: 1e-3)
    (path,) = tmp_path.iterdir()
    header, *lines = path.read_text().splitlines(keepends=True)
    old = next(row.assignment for row in reversed(PoolFile(path).rows) if not row.searched)
    space = pool_space(POOLS[0])
    papers = {**json.loads(header), "beside": place_of(space, old)}
    gone = f"[{place_of(space, space.default)},"
    path.write_text(json.dumps(papers) + "\n" + "".join(line for line in lines if not line.startswith(gone)))
    asked: list[Schedule] = []

    def measure(_: Task, schedule: Schedule) -> MeasureResult:
        asked.append(schedule)
        return Measured((1e-3,), 0.0)

    with closing(bench_of(measure)) as bench:
        record([PoolFile(path)], BATCH, 60.0, bench)
    assert space.schedule(space.default) in asked
    assert asked[0] == space.schedule(old)
    assert space.default in {row.assignment for row in PoolFile(path).rows}


def test_what_slows_a_default_alone_is_its_own_noise(tmp_path: Path) -> None:
    rng = random.Random(0)

    def measure(number: int) -> float:
        batch, place = divmod(number, 1 + BATCH)
        return 1e-3 * (1 + batch % 3) if place == 0 else 3e-3 * rng.uniform(1.0, 1.05)

    others = recorded(tmp_path, 12 * BATCH, measure)
    assert [row.seconds for row in others] == pytest.approx([3.07e-3] * len(others), rel=0.05)


def test_a_slow_moment_is_forgotten_with_later_visits(tmp_path: Path) -> None:
    PoolFile.create(tmp_path, "net", POOLS[0].task)
    (path,) = tmp_path.iterdir()
    timed = itertools.count()

    def measure(_: Task, __: Schedule) -> MeasureResult:
        return Measured((1e-3 * (1.1 if 5 <= next(timed) < 15 else 1.0),), 0.0)

    with closing(bench_of(measure)) as bench:
        record([PoolFile(path)], 60, 60.0, bench)
        slow = [row for row in PoolFile(path).rows if (row.seconds or 0.0) > 1.05e-3]
        assert len(slow) == 10
        record([PoolFile(path)], 60, 60.0, bench, visits=3)
    assert [row.seconds for row in PoolFile(path).rows] == pytest.approx([1e-3] * 61)


def test_the_last_rows_are_what_the_search_tries_next(tmp_path: Path) -> None:
    """It knows the pool's rows, finds faster ones than samples and their mutants are, and goes on after a stop."""
    PoolFile.create(tmp_path, "net", POOLS[0].task)
    (path,) = tmp_path.iterdir()
    took: dict[str, float] = {}

    def opened() -> PoolFile:
        file = PoolFile(path)
        build = file.space.build

        def remembered(values: dict[str, Value]) -> Schedule:
            schedule = build(values)
            took[schedule.digest] = seconds(values)
            return schedule

        file.space = replace(file.space, build=remembered)
        return file

    with closing(bench_of(lambda _, schedule: Measured((took[schedule.digest],), 0.0))) as bench:
        record([opened()], 60, 60.0, bench)
        for live in (40, 80):
            counts = record([opened()], 60, 60.0, bench, live=live)
    rows = PoolFile(path).rows
    assert counts[path.name] == len(rows) == len({row.assignment for row in rows})
    assert 140 <= len(rows) <= 141  # and the default
    early, late = rows[:60], rows[61:]
    assert all(row.searched for row in late)
    assert np.median([r.seconds for r in late if r.seconds]) < np.median(
        [r.seconds for r in early if r.seconds]
    )


def test_who_was_lucky_once_is_compared_until_that_shows(tmp_path: Path) -> None:
    """The machine is another in each comparison; and one of the front fails when it is run again."""
    PoolFile.create(tmp_path, "net", POOLS[0].task)
    (path,) = tmp_path.iterdir()
    space, seen = pool_space(POOLS[0]), Counter[str]()
    good, lucky, flaky = (space.schedule(a) for a in list(itertools.islice(samples(space), 40))[20:23])
    default = space.schedule(space.default)

    def measure(_: Task, schedule: Schedule) -> MeasureResult:
        seen[schedule.digest] += 1
        if schedule == lucky and seen[schedule.digest] == 1:
            return Measured((0.8e-3,), 0.0)
        if schedule == flaky and seen[schedule.digest] > 1:
            return MeasureFailed(FailureKind.CRASH, "broken")
        slowness = 1 + seen[default.digest] % 3 / 4
        took_s = slowness * (0.9e-3 if schedule in (good, flaky) else 1e-3)
        return Measured((took_s,) * FEWEST, 0.0)

    with closing(bench_of(measure)) as bench:
        record([PoolFile(path)], 60, 60.0, bench)
        assert times_of(path)[lucky.digest] == min(times_of(path).values())
        assert "the best of 1 pools may have been lucky: run settle" in lab._about(load_pools(tmp_path))
        counts = settle([PoolFile(path)], 60.0, lambda: nullcontext(bench))
        assert settle([PoolFile(path)], 60.0, lambda: nullcontext(bench)) == counts
    rows = {space.schedule(row.assignment).digest: row for row in PoolFile(path).rows}
    found = times_of(path)
    assert found[good.digest] == pytest.approx(0.9 * found[default.digest], rel=1e-3)
    assert found[lucky.digest] == pytest.approx(found[default.digest], rel=1e-3)
    assert len(rows[good.digest].ratios) == max(FRONTS.values())
    assert rows[flaky.digest].failure == "crash"
    assert flaky.digest not in found
    about = "\n".join(lab._about(load_pools(tmp_path)))
    assert "rows compared more than once; standard deviation" in about
    assert "run settle" not in about
    assert counts[path.name] == sum(len(row.ratios) > 1 for row in rows.values()) >= max(FRONTS) - 1
    assert [row.seconds for row in load_pools(tmp_path)[0].rows] == [row.seconds for row in rows.values()]


def test_the_best_is_not_who_was_lucky_in_most_comparisons() -> None:
    """Fifty that take what the default takes, each compared sixteen times with a noise of 3 %."""
    noise, (first, *others) = random.Random(0), POOLS[0].rows
    rows = [
        replace(row, seconds=median(ratios) * 1e-3, ratios=ratios)
        for row in others[:50]
        for ratios in [tuple(noise.gauss(1, 0.03) for _ in range(16))]
    ]
    pool = replace(POOLS[0], rows=(replace(first, seconds=1e-3), *rows))
    fastest = min(row.seconds for row in rows)
    assert fastest < 0.985e-3
    assert pool.best_s == pytest.approx(1e-3, rel=0.01)
    better = replace(rows[0], seconds=0.8e-3, ratios=(0.8,) * 8)
    assert replace(pool, rows=(*pool.rows, better)).best_s == pytest.approx(0.8e-3)
    seldom = replace(rows[0], seconds=0.7e-3, ratios=())
    assert replace(pool, rows=(*pool.rows, seldom)).best_s == 0.7e-3


def test_what_a_search_would_try_first_is_compared_too(tmp_path: Path) -> None:
    PoolFile.create(tmp_path, "net", POOLS[0].task)
    (path,) = tmp_path.iterdir()
    with closing(bench_of(quiet)) as bench:
        record([PoolFile(path)], 60, 60.0, bench)
        settle([PoolFile(path)], 60.0, lambda: nullcontext(bench))
        (pool,) = load_pools(tmp_path)
        other = next(row.assignment for row in pool.rows[1:] if len(row.ratios) == 1)
        opened = list[Workbench]()

        @contextmanager
        def open_bench() -> Iterator[Workbench]:
            opened.append(bench)
            yield bench

        settle([PoolFile(path)], 60.0, open_bench, {pool.key: {other}})
    assert len(opened) == PROPOSED - 1, "each comparison has processes of its own"
    compared = {row.assignment: len(row.ratios) for row in PoolFile(path).rows}
    assert compared[other] == PROPOSED < max(compared.values())


def test_proposals_are_the_first_trials_of_warm_searches() -> None:
    found = lab.proposed(POOLS, SAMPLES)
    warm = list(lab.warm_replays(POOLS, SAMPLES, 1, 8))
    for pool, (first, *_) in zip(POOLS, warm, strict=True):
        assert set(first.asked) <= found[pool.key] <= {row.assignment for row in pool.rows}


def times_of(path: Path) -> dict[str, float]:
    space = pool_space(POOLS[0])
    return {
        space.schedule(r.assignment).digest: r.seconds for r in PoolFile(path).rows if r.seconds is not None
    }


def test_a_default_that_fails_in_a_comparison_is_said(tmp_path: Path) -> None:
    PoolFile.create(tmp_path, "net", POOLS[0].task)
    (path,) = tmp_path.iterdir()
    with closing(bench_of(quiet)) as bench:
        record([PoolFile(path)], 30, 60.0, bench)
    with (
        closing(bench_of(lambda *_: MeasureFailed(FailureKind.CRASH, "broken"))) as bench,
        pytest.raises(InputError, match=r"the default of net-.* fails in a comparison \(broken\)"),
    ):
        settle([PoolFile(path)], 60.0, lambda: nullcontext(bench))


def test_a_default_that_always_fails_ends_the_recording(tmp_path: Path) -> None:
    PoolFile.create(tmp_path, "net", POOLS[0].task)
    (path,) = tmp_path.iterdir()
    with (
        closing(bench_of(lambda _, __: MeasureFailed(FailureKind.CRASH, "broken"))) as bench,
        pytest.raises(InputError, match=r"the default of net-.* failed 5 times in a row \(broken\)"),
    ):
        record([PoolFile(path)], 5 * BATCH, 60.0, bench)


def test_a_pool_without_its_default_is_left_alone(tmp_path: Path) -> None:
    PoolFile.create(tmp_path, "net", POOLS[0].task)
    with closing(bench_of(quiet)) as bench:
        assert (
            settle([PoolFile(path) for path in tmp_path.iterdir()], 60.0, lambda: nullcontext(bench)).total()
            == 0
        )


def test_training_writes_a_model_and_keeps_it_until_a_better_one_comes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for made in POOLS:
        PoolFile.create(tmp_path, made.network, made.task)

    def measure(task: Task, schedule: Schedule) -> MeasureResult:
        tile = NestFeatures()(task, [Candidate(schedule)])[0]
        rows, vectors = tile[FEATURE_NAMES.index("tile_rows")], tile[FEATURE_NAMES.index("tile_vectors")]
        return Measured((seconds({"rows": int(rows), "vectors": int(vectors)}),), 1e-7)

    with closing(bench_of(measure)) as bench:
        record([PoolFile(path) for path in sorted(tmp_path.iterdir())], 40, 60.0, bench)
    model = tmp_path / "trained.model"
    search_main(["--pools", str(tmp_path), "--verified", "1", "train", "--model", str(model)])
    found = load_model(model)
    assert (found.number, found.seen.threads) == (1, {1})
    assert found.gates["instant"]["value"] > found.gates["usual"]["value"]
    with pytest.raises(SystemExit):
        search_main(["--pools", str(tmp_path), "--verified", "1", "train", "--model", str(model)])
    assert "not kept: it is not better than the model in use" in capsys.readouterr().out

    # Grown pools: the model in use is taught again what it was taught, and judged by the samples of now.
    with closing(bench_of(measure)) as bench:
        record([PoolFile(path) for path in sorted(tmp_path.glob("*.jsonl"))], 60, 60.0, bench)
    (grown, *_), (before, *_) = load_pools(tmp_path), load_pools(tmp_path, found.seen.lines)
    assert (before.lines, before.rows) == (found.seen.lines[before.key], grown.rows[: len(before.rows)])
    assert grown.lines > before.lines
    with suppress(SystemExit):
        search_main(["--pools", str(tmp_path), "--verified", "1", "train", "--model", str(model)])
    verdict = capsys.readouterr().out
    assert "model 2 is in" in verdict or "the model in use" in verdict
    next(tmp_path.glob("two-*.jsonl")).unlink()
    with pytest.raises(InputError, match=r"1 of the 3 pools .* bring them, or delete that model"):
        search_main(["--pools", str(tmp_path), "--verified", "1", "train", "--model", str(model)])


def test_a_place_tells_the_assignment() -> None:
    space = pool_space(POOLS[0])
    for assignment in itertools.islice(samples(space), 20):
        assert assignment_at(space, place_of(space, assignment)) == assignment


def test_the_heaviest_task_of_each_kind_comes_first(tmp_path: Path) -> None:
    path, target = filled("mlp", tmp_path), PRESETS["x86-64-v3"]
    taken: set[str] = set()
    (first,) = network_tasks(path, 1, 1, target, taken)
    (second,) = network_tasks(path, 1, 1, target, taken)
    assert first.workload.operations >= second.workload.operations
    assert taken == {first.workload.digest, second.workload.digest}


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


def test_a_pool_of_another_space_is_refused(tmp_path: Path) -> None:
    """Its places would name other assignments."""
    PoolFile.create(tmp_path, "net", POOLS[0].task)
    (path,) = tmp_path.iterdir()
    header = json.loads(path.read_text())
    path.write_text(json.dumps({**header, "size": header["size"] + 1}) + "\n")
    with pytest.raises(InputError, match="record it again"):
        load_pools(tmp_path)
    with pytest.raises(InputError, match="record it again"):
        PoolFile(path)


def test_samples_have_schedules_of_their_own() -> None:
    """The knob of windows beside each other belongs to some algorithms only."""
    space = build_space(windows(112, 96, reducer="max", outside=float("-inf")), PRESETS["x86-64-v4"], 1)
    assert "beside" in {knob.name for knob in space.knobs}
    found = list(itertools.islice(samples(space), 300))
    assert len({space.schedule(assignment) for assignment in found}) == len(found) == 300


def test_a_full_pool_is_visited_again(tmp_path: Path) -> None:
    """Each time is another one, as on a machine with neighbours; the default's too. What was searched is not."""
    PoolFile.create(tmp_path, "net", POOLS[0].task)
    (path,) = tmp_path.iterdir()
    rng = random.Random(0)

    def noisy(_: Task, schedule: Schedule) -> MeasureResult:
        return Measured((1e-3 * (1 + len(schedule.steps) % 3 / 10) * rng.uniform(1.0, 1.1),), 2e-7)

    for visits in (1, 4):
        with closing(bench_of(noisy)) as bench:
            record([PoolFile(path)], 60, 60.0, bench, visits=visits)
    (found,) = load_pools(tmp_path)
    default, *others = found.rows
    assert default.assignment == pool_space(POOLS[0]).default
    sampled = [row for row in others if not row.searched]
    assert {len(row.times) for row in sampled} == {len(row.ratios) for row in sampled} == {4}
    assert {len(row.times) for row in others if row.searched} == {1}
    assert len(default.times) == 4
    assert default.seconds == pytest.approx(settled(default.times), rel=0.05)
    assert [r.seconds for r in sampled] == pytest.approx([np.median(r.said) for r in sampled])
    assert {len(row.said) for row in sampled} == {4}
    assert [r.times for r in found.rows] == [r.times for r in PoolFile(path).rows]
    agreed = lab.agreement([found])
    assert agreed is not None
    assert 0.5 < agreed <= 1.0
    assert lab.agreement(POOLS) is None
    assert "halves of the visits agree" in lab.Findings([found], None, None, {}, {}, 0).text()


def test_all_visits_count_alike_and_comparisons_count_alone(tmp_path: Path) -> None:
    """The second day is twice as slow, and not all candidates have been visited on it."""
    PoolFile.create(tmp_path, "net", POOLS[0].task)
    (path,) = tmp_path.iterdir()
    file = PoolFile(path)
    default, *others = itertools.islice(samples(file.space), 4)
    real_s = dict(zip(others, (2e-3, 2.2e-3, 3e-3), strict=True))

    def visit(pace: float, errors: Mapping[Assignment, float]) -> None:
        times = {a: pace * real_s[a] * error for a, error in errors.items()}
        measured = [(a, Measured((s,), 2e-7)) for a, s in times.items()]
        file.append([(default, Measured((pace * 1e-3,), 2e-7)), *measured], searched=False)
        file.append_ratios([(a, s / pace / 1e-3) for a, s in times.items()])

    visit(1.0, {others[0]: 1.1, others[1]: 1.0, others[2]: 1.0})
    visit(2.0, {others[0]: 1 / 1.1, others[1]: 1.0})
    found = {row.assignment: row for row in file.rows}
    assert [found[a].seconds for a in others] == pytest.approx(list(real_s.values()), rel=0.06)
    ratio = found[others[1]].seconds / found[others[0]].seconds
    assert ratio == pytest.approx(1.1, rel=1e-2)
    file.append_ratios([(others[0], 5.0)] * 3)
    assert next(r for r in file.rows if r.assignment == others[0]).seconds == pytest.approx(5e-3, rel=0.06)


@pytest.mark.parametrize("command", ["report", "train", "fit"])
def test_without_pools_it_says_what_to_do(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        search_main(["--pools", str(tmp_path), command])
    assert stopped.value.code == 1
    assert "prepare and record some first" in capsys.readouterr().out
