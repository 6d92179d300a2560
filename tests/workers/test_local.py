"""Real candidates, from Schedule to time, in child processes."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from compiler.dtype import DType
from compiler.errors import MeasureError
from compiler.index import Index
from compiler.scalar import Bound, Const, Expr, Guard, Load, apply
from compiler.schedule.schedule import Schedule
from compiler.schedule.steps import Split
from compiler.space.rules import build_space
from compiler.symbol import axis
from compiler.target import native_target
from compiler.workload.ir import Operand, Stage, Workload
from tests.faults import planted
from tests.workers.children import children
from tuner.candidate import Candidate
from tuner.measure import (
    Built,
    FailureKind,
    Measured,
    MeasureFailed,
    MeasureInput,
    MeasureOptions,
    result_json,
)
from tuner.task import Task
from workers.cores import cores_apart
from workers.frames import Frame
from workers.heats import HEAT, Heat
from workers.local import LocalBuilder, LocalRunner, _result
from workers.local_pair import local_workers

OPTIONS = MeasureOptions(samples=3, sample_ms=0.2, timeout_s=5.0, memory_bytes=512 << 20)


def matrix_product() -> Task:
    """c = max(a @ w + bias, 0), with a constant w that schedules pack; nothing divides anything."""
    rows, columns, inner = 37, 45, 19
    i, j, k = (Index.of(name) for name in "ijk")
    product = apply("mul", Load("a", (i, k)), Load("w", (k, j)))
    biased = apply("max", apply("add", Load("t", (i, j)), Load("b", (j,))), Const(0.0))
    axes = (axis("i", rows), axis("j", columns))

    def operand(name: str, *sizes: int, constant: bool = False) -> Operand:
        return Operand(name, tuple(Index.of(s) for s in sizes), DType.F32, constant)

    workload = Workload(
        operands=(
            operand("a", rows, inner),
            operand("w", inner, columns, constant=True),
            operand("b", columns, constant=True),
        ),
        temporaries=(operand("t", rows, columns),),
        outputs=(operand("c", rows, columns),),
        stages=(
            Stage("anchor", axes, (axis("k", inner),), "sum", product, "t", (i, j)),
            Stage("epilogue", axes, (), None, biased, "c", (i, j)),
        ),
    )
    return Task(workload, native_target(), 2, 1, "matrix product")


def rows_behind_others() -> Task:
    """Two constant rows, then the rows of an input of some pages, found by quotient and remainder."""
    i, j = Index.of("i"), Index.of("j")
    place = i - 2
    constant = Load("c", (Index(), j))
    rows = Load("x", (place // 12, place % 12, j))
    second = Guard((Bound(i, 1, 2),), constant, rows)
    body = apply("neg", Guard((Bound(i, 0, 1),), constant, second))
    operands = (
        Operand("x", (Index.of(12), Index.of(12), Index.of(64)), DType.F32),
        Operand("c", (Index.of(1), Index.of(64)), DType.F32, True),
    )
    output = Operand("y", (Index.of(146), Index.of(64)), DType.F32)
    stage = Stage("map", (axis("i", 146), axis("j", 64)), (), None, body, "y", (i, j))
    workload = Workload(operands=operands, temporaries=(), outputs=(output,), stages=(stage,))
    return Task(workload, native_target(), 1, 1, "rows behind others")


def default_candidate(task: Task) -> MeasureInput:
    space = build_space(task.workload, task.target, task.threads)
    return MeasureInput(task, Candidate(space.schedule(space.default), space.default))


def illegal_candidate(task: Task) -> MeasureInput:
    return MeasureInput(task, Candidate(Schedule((Split("no stage", "i", 4),))))


def parts_of_a_row(*sizes: int) -> Task:
    """Inputs of so many columns beside each other, in vectors that do not end where they do."""
    i, j = Index.of("i"), Index.of("j")
    rows, starts = 64, [sum(sizes[:place]) for place in range(len(sizes))]
    body: Expr = Load(f"x{len(sizes) - 1}", (i, j - starts[-1]))
    for place in reversed(range(len(sizes) - 1)):
        bound = Bound(j, starts[place], starts[place + 1])
        body = Guard((bound,), Load(f"x{place}", (i, j - starts[place])), body)
    operands = tuple(
        Operand(f"x{place}", (Index.of(rows), Index.of(size)), DType.F32) for place, size in enumerate(sizes)
    )
    output = Operand("y", (Index.of(rows), Index.of(sum(sizes))), DType.F32)
    stage = Stage("map", (axis("i", rows), axis("j", sum(sizes))), (), None, apply("neg", body), "y", (i, j))
    workload = Workload(operands=operands, temporaries=(), outputs=(output,), stages=(stage,))
    return Task(workload, native_target(), 1, 1, "parts of a row")


@pytest.fixture
def builder() -> Iterator[LocalBuilder]:
    builder = LocalBuilder(2, OPTIONS)
    yield builder
    builder.close()


@pytest.fixture
def runner() -> Iterator[LocalRunner]:
    runner = LocalRunner("bench-1", OPTIONS)
    yield runner
    runner.close()


def test_candidates_are_built_verified_and_timed(builder: LocalBuilder, runner: LocalRunner) -> None:
    task = matrix_product()
    good = default_candidate(task)
    first, bad, last = builder.build([good, illegal_candidate(task), good])

    assert isinstance(bad, MeasureFailed)
    assert bad.kind is FailureKind.BUILD
    assert isinstance(first, Built)
    assert isinstance(last, Built)
    assert first.kernel == last.kernel
    results = runner.run(task, [first, last])
    for result in results:
        assert isinstance(result, Measured), result
        # A neighbour may slow one of them so much that it seems hopeless beside the other.
        assert 1 <= len(result.samples_s) <= OPTIONS.samples
        assert 0 < result.error <= task.error_budget
        assert result.build_s > 0
    assert runner.device == "bench-1"
    assert runner.sandbox.startswith("rlimits")


def test_a_pacer_is_timed_in_the_rounds_of_each_candidate(builder: LocalBuilder, runner: LocalRunner) -> None:
    task = matrix_product()
    (built,) = builder.build([default_candidate(task)])
    assert isinstance(built, Built)
    results = runner.run(task, [built] * (HEAT // task.threads + 1), built)
    for result in results:
        assert isinstance(result, Measured), result
        assert len(result.pacer_s) == len(result.samples_s)
        assert min(result.pacer_s) > 0
    # The last one is alone in another heat.
    assert results[0].pacer_s[:1] == results[1].pacer_s[:1] != results[-1].pacer_s[:1]


def test_one_process_measures_batch_after_batch_until_one_fails(
    builder: LocalBuilder, runner: LocalRunner
) -> None:
    task, other = matrix_product(), planted.task()
    (built,) = builder.build([default_candidate(task)])
    assert isinstance(built, Built)
    runner.run(task, [built])
    measuring = runner._child.pid
    runner.run(other, [planted.planted()])
    runner.run(task, [built])
    assert runner._child.pid == measuring
    broken = runner.run(other, [built, planted.planted()])
    assert [type(r) for r in broken] == [MeasureFailed, Measured]
    assert runner._child.pid != measuring


def test_code_of_another_subgraph_is_wrong_or_fails(builder: LocalBuilder, runner: LocalRunner) -> None:
    task = matrix_product()
    (built,) = builder.build([default_candidate(task)])
    assert isinstance(built, Built)
    (result,) = runner.run(planted.task(), [built])
    assert isinstance(result, MeasureFailed)
    assert result.kind is FailureKind.BUILD


@pytest.mark.parametrize(
    "task",
    [
        pytest.param(rows_behind_others(), id="rows"),
        pytest.param(parts_of_a_row(3, 30, 64, 16, 17), id="lanes"),
        pytest.param(parts_of_a_row(16, 5, 16, 1), id="short parts"),
        pytest.param(parts_of_a_row(3, 64), id="at the beginning"),
        pytest.param(parts_of_a_row(64, 80, 96), id="whole vectors"),
    ],
)
def test_what_a_guard_excludes_is_not_read(task: Task, builder: LocalBuilder, runner: LocalRunner) -> None:
    """The first elements would be read in front of an input, where the runner left no memory."""
    (result,) = runner.run(task, builder.build([default_candidate(task)]))
    assert isinstance(result, Measured), result


def test_a_build_that_takes_too_long_is_a_build_failure_of_its_own() -> None:
    task = matrix_product()
    builder = LocalBuilder(1, replace(OPTIONS, build_timeout_s=0.0001))
    results = builder.build([default_candidate(task)] * 2)
    builder.close()
    assert [r.kind for r in results if isinstance(r, MeasureFailed)] == [FailureKind.BUILD] * 2


def states(pids: set[int]) -> set[str]:
    """One letter for what each process is doing."""
    return {Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] for pid in pids}


def test_a_pause_stops_building_and_its_limits() -> None:
    before, task = children(), matrix_product()
    with closing(LocalBuilder(0, replace(OPTIONS, build_timeout_s=1.0), guests=2)) as builder:
        assert all(isinstance(b, Built) for b in builder.build([default_candidate(task)] * 2))
        with ThreadPoolExecutor(1) as thread:
            builder.pause()
            deadline = time.monotonic() + 10
            while states(children() - before) != {"T"} and time.monotonic() < deadline:
                time.sleep(0.01)
            assert states(children() - before) == {"T"}
            waiting = thread.submit(builder.build, [default_candidate(task)] * 4)
            time.sleep(1.2)
            assert not waiting.done()
            builder.resume()
            assert all(isinstance(b, Built) for b in waiting.result(20))
            many = thread.submit(builder.build, [default_candidate(task)] * 40)
            builder.pause()
            time.sleep(1.2)
            builder.resume()
            assert all(isinstance(b, Built) for b in many.result(40))


def test_what_is_built_and_what_is_timed_have_cores_of_their_own() -> None:
    """And what is built where something is timed is stopped meanwhile."""
    apart = cores_apart(1)
    if apart is None:
        pytest.skip("this machine has one core")
    task = matrix_product()
    with local_workers(1, options=OPTIONS) as (builder, runner):
        before = children()
        own = len(apart.building)
        built = [b for b in builder.build([default_candidate(task)] * (own + 1)) if isinstance(b, Built)]
        building = [frozenset(os.sched_getaffinity(pid)) for pid in children() - before]
        assert Counter(building) == {apart.building: own, apart.timing: 1}
        known = children()
        assert isinstance(runner.run(task, built)[0], Measured)
        (timing,) = children() - known
        assert os.sched_getaffinity(timing) == apart.timing


def test_only_guests_stop() -> None:
    task = matrix_product()
    with closing(LocalBuilder(1, OPTIONS, guests=1)) as builder:
        assert all(isinstance(b, Built) for b in builder.build([default_candidate(task)] * 2))
        builder.pause()
        assert isinstance(builder.build([default_candidate(task)])[0], Built)
        waiting = threading.Thread(target=builder.build, args=([default_candidate(task)] * 2,))
        waiting.start()
        waiting.join(0.5)
        assert waiting.is_alive()
        builder.resume()
        waiting.join(30.0)
        assert not waiting.is_alive()


class PausedBuilder(LocalBuilder):
    """Remembers what it was asked for."""

    def __init__(self) -> None:
        super().__init__(0, OPTIONS, guests=1)
        self.asked: list[str] = []

    def pause(self) -> None:
        self.asked.append("pause")
        super().pause()

    def resume(self) -> None:
        self.asked += ["resume"] if self.asked[-1:] == ["pause"] else []
        super().resume()


@pytest.mark.parametrize("how", ["run", "compare"])
def test_nothing_is_built_while_candidates_are_timed(how: str) -> None:
    task = matrix_product()
    with closing(PausedBuilder()) as builder, closing(LocalRunner("here", OPTIONS, builder)) as runner:
        built = [b for b in builder.build([default_candidate(task)] * 2) if isinstance(b, Built)]
        results = runner.compare(task, built) if how == "compare" else runner.run(task, built)
        assert all(isinstance(r, Measured) for r in results)
        assert builder.asked == ["pause", "resume"]
        assert all(isinstance(b, Built) for b in builder.build([default_candidate(task)]))


@pytest.mark.faults
def test_killed_build_processes_are_replaced(builder: LocalBuilder) -> None:
    before = children()
    task = matrix_product()
    assert all(isinstance(b, Built) for b in builder.build([default_candidate(task)] * 2))
    killed = children() - before
    for pid in killed:
        os.kill(pid, signal.SIGKILL)

    # Whether a process is gone shows when it is given work, and a free one may take all of a batch.
    batches = [builder.build([default_candidate(task)] * 2) for _ in range(2 + len(killed))]

    lost = [b for batch in batches for b in batch if not isinstance(b, Built)]
    assert len(lost) <= len(killed)
    assert all(b.kind is FailureKind.BUILD for b in lost)
    assert all(isinstance(b, Built) for b in batches[-1])


def test_a_machine_of_another_kind_is_an_error(runner: LocalRunner) -> None:
    foreign = replace(planted.task(), target=replace(native_target(), name="other", triple="riscv64-linux"))
    with pytest.raises(MeasureError, match="cannot run code for other"):
        runner.run(foreign, [planted.planted()])


def test_nothing_to_do_is_nothing_done(builder: LocalBuilder, runner: LocalRunner) -> None:
    before = children()
    assert builder.build([]) == []
    assert runner.run(planted.task(), []) == []
    assert children() == before


def test_a_child_that_says_what_cannot_be_is_not_listened_to() -> None:
    """Whoever has overwritten it could keep its parent busy for ever."""
    verified, timing = Frame({"event": "verified"}), Frame({"event": "timing"})
    said = Heat(2)
    assert not said.hears(timing)
    assert [said.hears(verified) for _ in range(3)] == [True, True, False]
    assert said.culprit == 1
    assert [said.hears(timing) for _ in range(2)] == [True, False]
    assert not said.hears(verified)
    assert said.culprit is None
    said.answered()
    assert (said.culprit, said.patience) == (0, 1)


def test_a_pacer_is_waited_for_in_each_heat_and_blamed_for_nothing() -> None:
    pacer, verified, timing = (Frame({"event": event}) for event in ("pacer", "verified", "timing"))
    said = Heat(2, paced=True)
    for _ in range(2):
        assert said.culprit is None
        assert not said.hears(verified)
        assert [said.hears(pacer) for _ in range(2)] == [True, False]
        assert said.culprit == 0
        assert said.hears(verified)
        assert said.hears(timing)
        assert (said.culprit, said.patience) == (None, 2)
        said.answered()


@pytest.mark.parametrize(
    "times",
    [
        {"samples_s": []},
        {"samples_s": [1e-3, 0.0]},
        {"samples_s": [math.nan]},
        {"samples_s": [1e-3], "pacer_s": [0.0]},
        {"samples_s": [1e-3], "pacer_s": [math.inf]},
        {"samples_s": [1e-3], "pacer_s": [1e-3, 1e-3]},
    ],
)
def test_times_that_cannot_be_are_no_result(times: dict[str, list[float]]) -> None:
    data = {**result_json(Measured((1e-3,), 0.0)), **times}
    answer = _result(Frame({"result": data}))
    assert isinstance(answer, MeasureFailed)
    assert answer.kind is FailureKind.CRASH
