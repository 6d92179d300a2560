"""The team: members on cores of their own, and a caller that goes on alone where its members are held up."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from compiler.codegen.llvm import emit_object
from compiler.codegen.probes import arithmetic_probe
from compiler.codegen.program import emit_program, phase_calls
from compiler.codegen.team import MEMBER_BYTES, MEMBER_OFFSET
from compiler.runtime.loader import Execution, LoadedProgram, team_object
from compiler.target import native_target

ALONE_UNTIL, CORE = 32, 24


class Team(Execution):
    """A team whose state can be read, running a loop of a tenth of a millisecond for each member."""

    def __init__(self, threads: int) -> None:
        target = native_target()
        kernel = arithmetic_probe(target, threads, "multiply_add")
        program = emit_object(emit_program(phase_calls(kernel, (0,))), target)
        super().__init__(LoadedProgram([kernel.object_code, program, team_object(target)]), threads, 1)
        self.result = np.zeros(kernel.params[0].shape, np.float32)
        self.table[0] = self.result.ctypes.data
        self._threads = threads

    def word(self, member: int, offset: int, dtype: type) -> int:
        start = MEMBER_OFFSET + MEMBER_BYTES * member + offset
        return int(self._team[start:].view(dtype)[0])

    def cores(self) -> list[int]:
        """Where each member was last seen."""
        return [self.word(member, CORE, np.int32) - 1 for member in range(self._threads)]


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
            with affinity({core}):
                pair.time_ns(
                    1
                )  # the caller is on this core, and so may be the only place that its member knows
            with affinity({first, second}):
                pair.time_ns(200)
                caller, member = pair.cores()
                assert {caller, member} == {first, second}


def test_members_stay_where_their_caller_may_run() -> None:
    core = min(os.sched_getaffinity(0))
    with team(3) as crowd, affinity({core}):
        for _ in range(3):
            crowd.time_ns(20)
        assert crowd.cores() == [core] * 3


def test_a_caller_whose_member_has_no_core_goes_on_alone() -> None:
    core = min(os.sched_getaffinity(0))
    with affinity({core}), team(2) as pair:
        for _ in range(50):
            pair.run()
        assert pair.word(0, ALONE_UNTIL, np.int64) > 0


def test_measuring_is_by_the_whole_team() -> None:
    core = min(os.sched_getaffinity(0))
    with affinity({core}), team(2) as pair:
        for _ in range(50):
            pair.run()
        pair.result[:] = 0
        pair._team[MEMBER_OFFSET + MEMBER_BYTES + CORE :].view(np.int32)[0] = 0
        pair.time_ns(1)
        assert pair.cores()[1] == core
        assert np.all(pair.result != 0)
