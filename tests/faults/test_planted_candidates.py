"""A bad candidate is reported as its kind, and costs only itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from compiler.codegen.kernel import Kernel, Phase
from tests.faults import planted
from tests.faults.planted import HALO, SIZE, store
from tests.slow import every
from tests.workers.children import children
from tuner.measure import Built, FailureKind, Measured, MeasureFailed, MeasureOptions
from tuner.pairs import LOOKS
from workers.local import LocalRunner

pytestmark = pytest.mark.faults

OPTIONS = MeasureOptions(samples=3, sample_ms=0.1, timeout_s=1.5, memory_bytes=256 << 20)

PLANTED = {
    "loops for ever": (planted.planted(planted.FOR_EVER), FailureKind.TIMEOUT),
    "writes far outside": (planted.planted(store("y", 1 << 32, "0.0")), FailureKind.MEMORY_FAULT),
    "writes one element past the end": (
        planted.planted(store("y", SIZE + 2 * HALO, "0.0")),
        FailureKind.MEMORY_FAULT,
    ),
    "reads one element past the end": (planted.planted(skip=-1), FailureKind.MEMORY_FAULT),
    "writes one element before the start": (planted.planted(store("y", -1, "0.0")), FailureKind.MEMORY_FAULT),
    "modifies an input": (planted.planted(store("x", 5, "0.0")), FailureKind.MEMORY_FAULT),
    "divides by zero": (planted.planted(planted.DIVIDE_BY_ZERO), FailureKind.ARITHMETIC_FAULT),
    "allocates without end": (planted.planted(planted.ALLOCATE_WITHOUT_END), FailureKind.OUT_OF_MEMORY),
    "writes NaN": (planted.planted(store("y", 9, "0x7FF8000000000000")), FailureKind.NOT_FINITE),
    "writes a wrong value": (planted.planted(store("y", 9, "0.5")), FailureKind.WRONG_OUTPUT),
    "writes the halo": (planted.planted(store("y", 0, "0.5")), FailureKind.WRONG_OUTPUT),
    "leaves output unwritten": (planted.planted(skip=1), FailureKind.WRONG_OUTPUT),
    "aborts": (planted.planted("call void @llvm.trap()\n  unreachable"), FailureKind.CRASH),
    "is no object code": (
        Built(Kernel("planted", (Phase("planted", b"no ELF", 1),), ()), 0.0),
        FailureKind.BUILD,
    ),
}


@pytest.fixture
def runner() -> Iterator[LocalRunner]:
    runner = LocalRunner(options=OPTIONS)
    yield runner
    runner.close()


@pytest.mark.parametrize("name", PLANTED)
def test_each_is_its_kind_and_the_run_goes_on(runner: LocalRunner, name: str) -> None:
    bad, kind = PLANTED[name]
    good = planted.planted()

    first, result, last = runner.run(planted.task(), [good, bad, good])

    assert isinstance(result, MeasureFailed), result
    assert result.kind is kind, result.message
    for measured in (first, last):
        assert isinstance(measured, Measured), measured
        assert len(measured.samples_s) >= 1
        assert measured.error <= 1e-6
        assert measured.build_s == 0.25


@pytest.mark.parametrize("name", every(3, PLANTED))
def test_a_comparison_leaves_it_out_and_goes_on(runner: LocalRunner, name: str) -> None:
    bad, kind = PLANTED[name]
    good = planted.planted()

    first, result, last = runner.compare(planted.task(), [good, bad, good])

    assert isinstance(result, MeasureFailed), result
    assert result.kind is kind, result.message
    assert isinstance(first, Measured)
    assert isinstance(last, Measured)
    assert len(first.samples_s) == len(last.samples_s) >= LOOKS[0]
    assert first.build_s == 0.25


@pytest.mark.parametrize(
    ("late", "kind"),
    [
        (planted.WRONG_THE_SECOND_TIME, FailureKind.WRONG_OUTPUT),
        (planted.ABORTS_THE_SECOND_TIME, FailureKind.CRASH),
        (planted.WRITES_OUTSIDE_THE_SECOND_TIME, FailureKind.MEMORY_FAULT),
    ],
)
def test_what_fails_while_others_are_timed_with_it_is_found(
    runner: LocalRunner, late: str, kind: FailureKind
) -> None:
    good = planted.planted()

    results = runner.run(
        planted.task(), [good, good, planted.planted(late), good, PLANTED["aborts"][0], good]
    )

    failed = {place: r.kind for place, r in enumerate(results) if isinstance(r, MeasureFailed)}
    assert failed == {2: kind, 4: FailureKind.CRASH}


@pytest.mark.parametrize("name", ["aborts the second time", *every(3, PLANTED)])
def test_a_pacer_that_cannot_run_is_left_out(runner: LocalRunner, name: str) -> None:
    """One that runs has a time, right or wrong: nothing else of it is used."""
    late = planted.planted(planted.ABORTS_THE_SECOND_TIME), FailureKind.CRASH
    bad, kind = PLANTED.get(name, late)
    good = planted.planted()

    results = runner.run(planted.task(), [good, PLANTED["writes the halo"][0], good], bad)

    assert [type(r) for r in results] == [Measured, MeasureFailed, Measured]
    may_run = kind in (FailureKind.WRONG_OUTPUT, FailureKind.NOT_FINITE, FailureKind.MEMORY_FAULT)
    assert may_run or all(r.pacer_s == () for r in results if isinstance(r, Measured))


def test_who_fails_beside_a_pacer_is_found(runner: LocalRunner) -> None:
    good, late = planted.planted(), planted.planted(planted.ABORTS_THE_SECOND_TIME)

    results = runner.run(planted.task(), [good, PLANTED["aborts"][0], late, good], good)

    failed = {place: r.kind for place, r in enumerate(results) if isinstance(r, MeasureFailed)}
    assert failed == {1: FailureKind.CRASH, 2: FailureKind.CRASH}


def test_what_fails_late_is_found_where_it_is_alone(runner: LocalRunner) -> None:
    (result,) = runner.run(planted.task(), [planted.planted(planted.WRITES_OUTSIDE_THE_SECOND_TIME)])
    assert isinstance(result, MeasureFailed)
    assert result.kind is FailureKind.MEMORY_FAULT
    assert result.message == "wrote outside the buffer of y, but only after many runs"


def test_who_writes_beside_its_scratch_buffers_late_is_found(runner: LocalRunner) -> None:
    """While they are timed these lie in memory that all share."""
    late = planted.planted(planted.outside_the_second_time("t", SIZE), scratch=SIZE)
    good = planted.planted(store("t", SIZE - 1, "0.5"), scratch=SIZE)

    first, result, last = runner.run(planted.task(), [good, late, good])

    assert isinstance(result, MeasureFailed)
    assert result.kind is FailureKind.MEMORY_FAULT
    assert result.message == "wrote outside its scratch buffers, but only after many runs"
    assert isinstance(first, Measured)
    assert isinstance(last, Measured)


def test_what_goes_wrong_only_after_many_runs_is_left_out_too(runner: LocalRunner) -> None:
    late = planted.planted(planted.WRONG_THE_SECOND_TIME)
    good = planted.planted()

    failed, measured = runner.compare(planted.task(), [late, good])

    assert isinstance(failed, MeasureFailed)
    assert failed.kind is FailureKind.WRONG_OUTPUT
    assert failed.message.endswith("but only after many runs")
    assert isinstance(measured, Measured)


def test_the_message_says_what_was_wrong(runner: LocalRunner) -> None:
    names = ("modifies an input", "writes a wrong value", "leaves output unwritten", "writes NaN")
    results = runner.run(planted.task(), [PLANTED[name][0] for name in names])

    messages = [r.message for r in results if isinstance(r, MeasureFailed)]
    assert messages[0] == "read outside its buffers, or wrote where it must not"
    assert messages[1].startswith("error ")
    assert messages[1].endswith("beyond the budget of 2e-05")
    assert messages[2] == f"left 1 of {SIZE} elements of y unwritten"
    assert messages[3] == "1 elements of y are NaN or infinite"


def test_a_candidate_that_prints_and_reads_disturbs_nothing(runner: LocalRunner) -> None:
    good = planted.planted()
    results = runner.run(planted.task(), [good, planted.planted(planted.TALKS), good])
    assert all(isinstance(r, Measured) for r in results), results


def test_a_share_for_every_thread_is_verified(runner: LocalRunner) -> None:
    results = runner.run(planted.task(threads=3), [planted.planted(), planted.planted(store("y", 9, "0.5"))])
    assert isinstance(results[0], Measured)
    assert isinstance(results[1], MeasureFailed)


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = children()
    runner = LocalRunner(options=OPTIONS)
    runner.run(
        planted.task(), [PLANTED["loops for ever"][0], planted.planted(), PLANTED["divides by zero"][0]]
    )
    runner.close()

    assert list(tmp_path.iterdir()) == []
    assert children() == before
