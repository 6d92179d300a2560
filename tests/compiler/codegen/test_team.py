"""The team: members on cores of their own, shares that others take, and cores that are left to others."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from compiler.codegen.llvm import emit_object
from compiler.codegen.probes import arithmetic_probe
from compiler.codegen.program import SMALL, emit_program, phase_calls
from compiler.codegen.team import MEMBER_BYTES, MEMBER_OFFSET, RESTS
from compiler.codegen.team_yield import CONTENDED_NS, TURN_NS
from compiler.runtime.loader import Execution, LoadedProgram, team_object
from compiler.target import native_target
from compiler.workload.work import Work

CORE, SINCE = 24, 40
SLEEPERS, CONTENDED, CONTENDED_UNTIL, WORD = 64, 192, 200, 264


class Team(Execution):
    """A team whose state can be read, running a loop of a tenth of a millisecond for each member."""

    def __init__(self, threads: int) -> None:
        target = native_target()
        kernel = arithmetic_probe(target, threads, "multiply_add")
        program = emit_object(emit_program(phase_calls(kernel, (0,), Work(100 * SMALL))), target)
        code = [kernel.phases[0].object_code, program, team_object(target)]
        super().__init__(LoadedProgram(code), threads, 1, own=True)
        assert self._own is not None
        self._team = self._own.state
        self.result = np.zeros(kernel.params[0].shape, np.float32)
        self.table[0] = self.result.ctypes.data
        self._threads = threads

    def word(self, member: int, offset: int, dtype: type) -> int:
        start = MEMBER_OFFSET + MEMBER_BYTES * member + offset
        return int(self._team[start:].view(dtype)[0])

    def state(self, offset: int, dtype: type) -> int:
        return int(self._team[offset:].view(dtype)[0])

    def contended_until(self, nanoseconds: int) -> None:
        """Of the monotonic clock."""
        self._team[CONTENDED_UNTIL:].view(np.int64)[0] = nanoseconds
        self._team[CONTENDED:].view(np.int32)[0] = 1

    def cores(self) -> list[int]:
        """Where each member was last seen."""
        return [self.word(member, CORE, np.int32) - 1 for member in range(self._threads)]

    def seen_on(self, cores: set[int]) -> None:
        """Runs until its members were last seen on just these cores: they go there when the system lets them run."""
        deadline = time.monotonic() + 20
        self.time_ns(200)
        while set(self.cores()) != cores and time.monotonic() < deadline:
            time.sleep(0.02)  # they follow when they are woken
            self.time_ns(20)
        assert set(self.cores()) == cores


@contextmanager
def affinity(cores: set[int]) -> Iterator[None]:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def team(threads: int) -> Iterator[Team]:
    made = Team(threads)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core: nowhere to go")
def test_a_member_leaves_the_core_of_its_caller() -> None:
    first, second = sorted(os.sched_getaffinity(0))[:2]
    with team(2) as pair:
        for core in (first, second) * 3:
            # The caller is on this core, which so may be the only place that its member knows.
            with affinity({core}):
                pair.time_ns(1)
            with affinity({first, second}):
                pair.seen_on({first, second})


def test_members_stay_where_their_caller_may_run() -> None:
    core = min(os.sched_getaffinity(0))
    with team(3) as crowd, affinity({core}):
        crowd.seen_on({core})


def test_a_caller_does_the_shares_of_members_that_do_not_come() -> None:
    with team(3) as pair:
        pair._program.stop(pair._own.address)  # its members have ended, and nobody has told the caller
        for _ in range(3):
            pair.result[:] = 0
            pair.run()
            assert np.all(pair.result != 0)
        pair._program.start(pair._own.address)


def test_each_run_does_every_share_once_on_crowded_cores() -> None:
    core = min(os.sched_getaffinity(0))
    with affinity({core}), team(4) as crowd:
        crowd.run()
        once = crowd.result.copy()
        for _ in range(100):
            crowd.result[:] = 0
            crowd.run()
            np.testing.assert_array_equal(crowd.result, once)


def test_a_contended_core_is_offered_once_a_turn_and_not_for_ever() -> None:
    with team(2) as pair:
        pair.run()
        assert pair.word(0, SINCE, np.int64) == 0
        pair.contended_until(time.monotonic_ns() + CONTENDED_NS)
        pair.run()
        first = pair.word(0, SINCE, np.int64)
        assert first > 0
        while time.monotonic_ns() < first + TURN_NS:
            pass
        pair.contended_until(time.monotonic_ns() + CONTENDED_NS)
        pair.run()
        second = pair.word(0, SINCE, np.int64)
        assert second >= first + TURN_NS
        pair.contended_until(1)
        pair.run()
        assert pair.word(0, SINCE, np.int64) == second


def test_a_team_that_was_timed_sleeps_until_it_is_needed() -> None:
    with team(3) as crowd:
        for _ in range(20):
            crowd.time_ns(1)
            assert crowd.state(WORD, np.int32) == RESTS
            deadline = time.monotonic() + 20
            while crowd.state(SLEEPERS, np.int32) < 2 and time.monotonic() < deadline:
                time.sleep(0.001)
            assert crowd.state(SLEEPERS, np.int32) == 2
            crowd.run()
            assert crowd.state(WORD, np.int32) == 0
            assert crowd.result.any()


def test_a_caller_that_waits_for_long_takes_its_cores_for_contended() -> None:
    with team(2) as pair:
        deadline = time.monotonic() + 20
        # On one core, a member that lost it within a share is waited for.
        with affinity({min(os.sched_getaffinity(0))}):
            while not pair.state(CONTENDED_UNTIL, np.int64) and time.monotonic() < deadline:
                pair.time_ns(20)
        assert pair.state(CONTENDED_UNTIL, np.int64) > 0
