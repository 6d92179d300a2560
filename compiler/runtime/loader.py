"""Loading: object code becomes callable in this process, by LLVM's own object loader (no linker, no temporary file)."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from compiler.codegen.evict import emit_evict
from compiler.codegen.kernel import Kernel, phase_objects
from compiler.codegen.llvm import PROGRAM_LEVEL, emit_object, initialise
from compiler.codegen.repeat import REPEAT
from compiler.codegen.team import emit_team
from compiler.codegen.trial import emit_trial
from compiler.errors import CompileError
from compiler.runtime.teams import TEAMS, Team
from compiler.symbol import size_at
from compiler.target import Target, native_target

_LOAD_LOCK = threading.Lock()


@cache
def team_object(target: Target) -> bytes:
    """The team's object code, compiled once per process."""
    return emit_object(emit_team(target), target)


_MAGIC = {"linux": b"\x7fELF", "darwin": b"\xcf\xfa\xed\xfe"}.get(sys.platform, b"")
"""How an object file of this system begins; anything where that is not known."""


class _Code:
    """Objects in this process's memory, for as long as this object lives; `address`: of each function by name."""

    def __init__(self, objects: Sequence[bytes], names: Sequence[str]) -> None:
        """Load the objects as one library; raises CompileError where LLVM refuses them or a function is missing."""
        # LLVM reads past the end of what is no object file.
        if not all(code.startswith(_MAGIC) for code in objects):
            msg = "what should be object code is something else; compile the model again"
            raise CompileError(msg)
        native_target()  # which asks the system for all registers that the code may use
        builder = llvm.JITLibraryBuilder().add_current_process()
        for code in objects:
            builder.add_object_img(code)
        for name in names:
            builder.export_symbol(name)
        with _LOAD_LOCK:
            initialise()
            # JITLink keeps the code and the constants of an object together. LLVM's older loader puts them wherever
            # there is room, and ends the process where that is more than 2 GiB apart.
            self._engine = llvm.create_lljit_compiler(use_jit_link=True)
            try:
                self._library = builder.link(self._engine, "code")
            except RuntimeError as error:
                msg = f"the object code cannot be loaded: {error}; compile the model again"
                raise CompileError(msg) from error
        self.address = {name: int(self._library[name]) for name in names}


class LoadedProgram:
    """Kernels and the program that calls them, in this process's memory. Immutable; share it between Executions.

    The code lives as long as this object and every Execution made from it.
    """

    def __init__(self, objects: Sequence[bytes]) -> None:
        """Load the objects of the kernels, the program and the team. Raises CompileError where LLVM refuses them."""
        self._code = _Code(objects, ("team_start", "team_stop", "program_run", "program_time"))
        self.start = self._function("team_start", ctypes.c_int32, 1)
        self.stop = self._function("team_stop", None, 1)
        self.run = self._function("program_run", None, 2)
        self.run_address = self._code.address["program_run"]
        self.time = self._function("program_time", ctypes.c_int64, 4)

    def _function(self, name: str, result: type | None, pointers: int) -> Callable[..., Any]:
        return ctypes.CFUNCTYPE(result, *[ctypes.c_void_p] * pointers)(self._code.address[name])


class _Evictor:
    """Drives so many bytes from an address on out of every cache of this machine."""

    def __init__(self, ir: str) -> None:
        self._code = _Code([emit_object(ir, native_target())], ["evict"])
        self._function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(self._code.address["evict"])

    def __call__(self, address: int, count: int) -> None:
        self._function(address, count)


@cache
def evictor() -> Callable[[int, int], None] | None:
    """A function that drives so many bytes from an address on out of every cache; None where this machine has none."""
    ir = emit_evict(native_target())
    return None if ir is None else _Evictor(ir)


@cache
def _repeater() -> tuple[_Code, Callable[..., int]]:
    """`repeat`, as compiler/codegen/repeat.py says, and the code that it is in."""
    code = _Code([emit_object(REPEAT, native_target())], ["repeat"])
    return code, ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 9)(code.address["repeat"])


@cache
def _trial_program(target: Target, pointers: int, symbols: int, phases: int) -> LoadedProgram:
    """What runs any kernel with so many pointers, symbols and phases."""
    program = emit_object(emit_trial(pointers, symbols, phases), target, PROGRAM_LEVEL)
    return LoadedProgram([program, team_object(target)])


class Execution:
    """A table of pointers, and a team for each run: what one call at a time needs. Not thread-safe."""

    def __init__(self, program: LoadedProgram, threads: int, slots: int, *, own: bool = False) -> None:
        """`own`: has a team of its own, started now. Raises InputError where the system gives no more threads."""
        self._program, self._threads = program, threads
        self._own = Team(program, threads) if own else None
        self.table = np.zeros(max(1, slots), np.uintp)
        self._table_address = self.table.ctypes.data
        self._open = True
        if self._own is None:
            TEAMS.enter()

    def run(self) -> None:
        """One run on the buffers of the table. Raises InputError where the system gives no more threads."""
        team = self._taken()
        self._program.run(team.address, self._table_address)
        self._give_back(team)

    def repeat(self, moves: np.ndarray, counter: int, first: int, rows: int, going: np.ndarray | None) -> int:
        """Up to so many runs while pointers move on, see compiler/codegen/repeat.py; how many there were.

        Args:
            moves: [n, 5] 64-bit integers.
            counter: address of a 64-bit integer that is `first` in the first run; 0 for none.
            first: the number of the first run.
            rows: how many there are at most.
            going: [3] 64-bit integers; None where no run ends them.
        """
        _, function = _repeater()
        flag = None if going is None else going.ctypes.data
        team = self._taken()
        places = (self._program.run_address, team.address, self._table_address, moves.ctypes.data)
        runs = function(*places, len(moves), counter or None, first, rows, flag)
        self._give_back(team)
        return runs

    def time_ns(self, runs: int, before: int = 0) -> int:
        """Nanoseconds that so many runs take, measured in native code; `before`: runs ahead of them that do not count.

        The other members of the team wake before all that, and sleep after it.
        """
        team = self._taken()
        found = self._program.time(team.address, self._table_address, before, max(1, runs))
        self._give_back(team)
        return int(found)

    def close(self) -> None:
        """It must not run any more."""
        if self._open:
            self._open = False
            if self._own is None:
                TEAMS.leave()
            else:
                self._own.close()

    def _taken(self) -> Team:
        return self._own or TEAMS.take(self._program, self._threads)

    def _give_back(self, team: Team) -> None:
        """Not after an exception, such as that of Ctrl+C: the run may go on, and nobody else takes the team."""
        if team is not self._own:
            TEAMS.give(team)

    def __del__(self) -> None:
        if getattr(self, "_open", False):
            self.close()


class LoadedKernel:
    """One kernel with a team of its own, for measuring. Not thread-safe; close it after use."""

    def __init__(self, kernel: Kernel, threads: int, target: Target | None = None) -> None:
        """Load the kernel into this process."""
        self._kernel = kernel
        objects = phase_objects([kernel])
        self._code = _Code(list(objects.values()), list(objects))
        self._functions = [self._code.address[phase.symbol] for phase in kernel.phases]
        slots = len(kernel.params) + len(kernel.symbols)
        program = _trial_program(
            target or native_target(), len(kernel.params), len(kernel.symbols), len(kernel.phases)
        )
        self._execution = Execution(program, threads, slots + 2 * len(kernel.phases), own=True)

    def run(self, pointers: Sequence[int], sizes: Sequence[int] = ()) -> None:
        """One run; `pointers` are addresses, one per Param, `sizes` the values of the kernel's symbols."""
        self._point(pointers, sizes)
        self._execution.run()

    def time_ns(self, pointers: Sequence[int], runs: int, sizes: Sequence[int] = (), before: int = 0) -> int:
        """Nanoseconds that so many runs take, measured in native code; see `Execution.time_ns`."""
        self._point(pointers, sizes)
        return self._execution.time_ns(runs, before)

    def close(self) -> None:
        """End the team."""
        self._execution.close()

    def _point(self, pointers: Sequence[int], sizes: Sequence[int]) -> None:
        values = dict(zip(self._kernel.symbols, sizes, strict=True))
        extents = [size_at(phase.parallel_extent, values) for phase in self._kernel.phases]
        phases = (word for pair in zip(self._functions, extents, strict=True) for word in pair)
        self._execution.table[:] = (*pointers, *sizes, *phases)
