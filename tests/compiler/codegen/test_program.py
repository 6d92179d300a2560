"""The program: which Calls a team shares out, and which its first member or its caller runs alone."""

from __future__ import annotations

import ctypes
import threading

import numpy as np
import pytest

from compiler.codegen.clear import Clear, Strip
from compiler.codegen.llvm import emit_object
from compiler.codegen.program import MOST_PIECES, OF_A_PROGRAM, PIECE, SMALL, Call, emit_program
from compiler.index import Index
from compiler.runtime.loader import Execution, LoadedProgram, _Code, team_object
from compiler.symbol import product
from compiler.target import native_target
from compiler.workload.work import Work

COUNTER = """
define void @{name}(ptr %log{sizes}, i64 %begin, i64 %end) {{
entry:
  %any = icmp slt i64 %begin, %end
  br i1 %any, label %loop, label %done
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %at = getelementptr i64, ptr %log, i64 %i
  %old = load i64, ptr %at
  %new = add i64 %old, 1
  store i64 %new, ptr %at
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""
"""A kernel that counts how often each iteration of its loop was done."""
LEAST, LITTLE, LARGE = Work(1), Work(SMALL), Work(100 * SMALL)
ALONE = 1 + OF_A_PROGRAM
"""How many times SMALL the only Call that is shared out may have, where nothing is passed on."""
OPEN = product([Index.of("n"), Index.of("m")])


def objects(calls: tuple[Call, ...]) -> list[bytes]:
    """The program, and a kernel for each symbol."""
    kernels = {c.symbol: COUNTER.format(name=c.symbol, sizes=", i64" * len(c.sizes)) for c in calls}
    return [emit_object(text, native_target()) for text in (emit_program(calls), *kernels.values())]


def functions(calls: tuple[Call, ...]) -> _Code:
    return _Code(objects(calls), ["program_phases", "program_pieces", "program_is_small"])


def phases(*calls: Call) -> int:
    code = functions(calls)
    return int(ctypes.CFUNCTYPE(ctypes.c_int64)(code.address["program_phases"])())


def is_small(*calls: Call, table: tuple[int, ...] = ()) -> bool:
    code, entries = functions(calls), np.array([0, *table], np.int64)
    function = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p)(code.address["program_is_small"])
    return bool(function(entries.ctypes.data))


def test_calls_that_are_not_shared_are_one_phase() -> None:
    small, whole = Call("a", (0,), 8, LITTLE), Call("b", (0,), 1, LARGE)
    large = Call("c", (0,), 8, LARGE)
    assert phases(small, whole) == 1
    assert phases(small, large, whole, small) == 3
    assert phases(large, large) == 2
    assert is_small(small, whole)
    assert not is_small(small, large)


@pytest.mark.parametrize(
    ("n", "m", "small"), [(2, 3, True), (SMALL // 64, 64 * ALONE, True), (SMALL // 64, 64 * ALONE + 1, False)]
)
def test_open_sizes_say_whether_a_program_is_small(n: int, m: int, *, small: bool) -> None:
    call = Call("a", (0,), Index.of("n"), Work(OPEN), (("n", 1), ("m", 2)))
    always, never = Call("b", (0,), 8, LEAST), Call("c", (0,), 8, LARGE)
    assert phases(call, always) == 2
    assert is_small(call, always, table=(n, m)) == small
    assert not is_small(call, never, table=(n, m))


def test_what_is_passed_on_makes_more_of_a_program_small() -> None:
    shared = Call("a", (0, 1), 8, Work(2 * ALONE * SMALL))
    alone = Call("b", (1, 2), 1, LARGE, moved=(SMALL, SMALL))
    elsewhere = Call("c", (2, 3), 1, LARGE, moved=(SMALL, SMALL))
    assert not is_small(shared)
    assert is_small(shared, alone)
    assert not is_small(shared, elsewhere)


@pytest.mark.parametrize(
    ("work", "threads", "pieces"),
    [(4 * PIECE - 1, 2, 1), (4 * PIECE, 2, 2), (12 * PIECE, 4, 3), (99 * PIECE, 3, MOST_PIECES)],
)
def test_shares_of_much_work_are_taken_in_pieces(work: int, threads: int, pieces: int) -> None:
    known, of_sizes = Call("a", (0,), 8, Work(work)), Call("b", (0,), 8, Work(Index.of("n")), (("n", 1),))
    alone, table = Call("c", (0,), 1, Work(work)), np.array([0, work], np.int64)
    code = functions((known, of_sizes, alone))
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(
        code.address["program_pieces"]
    )
    found = [function(table.ctypes.data, phase, threads) for phase in range(3)]
    assert found == [pieces, pieces, 1]


SLOW = """
declare i64 @pthread_self()
declare i32 @usleep(i32)

define void @slow(ptr %log, ptr %slow.one, i64 %begin, i64 %end) {
entry:
  %any = icmp slt i64 %begin, %end
  br i1 %any, label %loop, label %done
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %after ]
  %at = getelementptr i64, ptr %log, i64 %i
  %self = call i64 @pthread_self()
  store i64 %self, ptr %at
  %one = load i64, ptr %slow.one
  %waits = icmp eq i64 %self, %one
  br i1 %waits, label %wait, label %after
wait:
  %r = call i32 @usleep(i32 4000)
  br label %after
after:
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""
"""A kernel that writes who did each iteration, and takes four milliseconds for each of one thread's."""


def test_a_slow_member_does_less() -> None:
    count = 8 * MOST_PIECES
    log, slow = np.zeros(count, np.int64), np.array([threading.get_ident()], np.int64)
    program = emit_program((Call("slow", (0, 1), count, Work(100 * PIECE)),))
    codes = [emit_object(text, native_target()) for text in (program, SLOW)]
    execution = Execution(LoadedProgram([*codes, team_object(native_target())]), 2, 2, own=True)
    execution.table[:] = [log.ctypes.data, slow.ctypes.data]
    execution.run()
    execution.close()
    assert np.all(log)
    assert 0 < np.count_nonzero(log == slow[0]) < count // 2


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("n", [1, 5, SMALL, 3 * PIECE])
def test_everything_is_done_once(threads: int, n: int) -> None:
    border = Clear(4, (Strip(8, 16, 32, 3),))
    calls = (
        Call("a", (0,), 7, LARGE, clears=(border,)),
        Call("b", (1,), 7, LITTLE, clears=(border,)),
        Call("c", (2,), 1, LARGE),
        Call("d", (3,), Index.of("n"), Work(Index.of("n") * 3), (("n", 5),)),
    )
    logs = [np.zeros(size, np.int64) for size in (7, 7, 1, n)]
    cleared = np.ones(12, np.int64)
    program = LoadedProgram([*objects(calls), team_object(native_target())])
    execution = Execution(program, threads, 6, own=True)
    execution.table[:] = [*(log.ctypes.data for log in logs), cleared.ctypes.data, n]
    for runs in range(1, 4):
        execution.run()
        assert all((log == runs).all() for log in logs)
    np.testing.assert_array_equal(cleared.reshape(3, 4), [[1, 0, 0, 1]] * 3)
    execution.close()
