"""The program: which Calls a team shares out, and which its first member or its caller runs alone."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from compiler.codegen.clear import Clear, Strip
from compiler.codegen.llvm import emit_object
from compiler.codegen.program import OF_A_PROGRAM, SMALL, Call, emit_program
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
    return _Code(objects(calls), ["program_phases", "program_is_small"])


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


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("n", [1, 5, SMALL])
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
