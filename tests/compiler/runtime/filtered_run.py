"""A process that runs a Module under a kernel filter: `filtered_run.py THREADS`.

After warm-up it installs a seccomp filter on all of its threads. From then on any system call ends the process with
SIGSYS, but for its exit and, where the team has several members, what wakes them: futex, the calls that move a member
off a core that another is on when it has woken, and the one that leaves the core to another thread that waits for it.
It exits with 0 where `run_into` needed no other, with 77 where this system has no such filter, and with 78 where the
filter lets another call through.
"""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import signal
import struct
import sys

import numpy as np

from compiler.pipeline import compile_program, load_graph, lower
from compiler.schedule.source import NoSource
from compiler.target import native_target
from tests.compiler.runtime.test_module import random_input, small_model

_CALLS = {"x86_64": (317, 231, [202, 203, 204, 24]), "aarch64": (277, 94, [98, 122, 123, 124])}
"""Numbers of seccomp, exit_group, and futex, sched_setaffinity, sched_getaffinity, sched_yield."""
_NO_NEW_PRIVILEGES, _SET_FILTER, _ALL_THREADS = 38, 1, 1
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _KILL_PROCESS = 0x7FFF0000, 0x80000000
NO_FILTER, NOT_FILTERED = 77, 78
RUNS = 200


def _allow_only(seccomp: int, allowed: list[int]) -> bool:
    """Kill the process at any other system call of any of its threads; False where the system has no such filter."""
    steps = [(_LOAD, 0, 0, 0)]
    steps += [(_EQUAL, len(allowed) - place, 0, number) for place, number in enumerate(allowed)]
    steps += [(_RETURN, 0, 0, _KILL_PROCESS), (_RETURN, 0, 0, _ALLOW)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        return False
    return int(libc.syscall(seccomp, _SET_FILTER, _ALL_THREADS, program)) == 0


def _check_filter(seccomp: int, allowed: list[int]) -> None:
    """In a process of its own: exits unless a call that is not allowed ends that one."""
    child = os.fork()
    if child == 0:
        if not _allow_only(seccomp, allowed):
            os._exit(NO_FILTER)
        os.getppid()
        os._exit(NOT_FILTERED)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status != -signal.SIGSYS:
        os._exit(status)


def main() -> None:
    """Warm up, install the filter, run, exit."""
    threads = int(sys.argv[1])
    if platform.machine() not in _CALLS:
        os._exit(NO_FILTER)
    seccomp, exit_group, waking = _CALLS[platform.machine()]
    allowed = [exit_group] if threads == 1 else [exit_group, *waking]
    _check_filter(seccomp, allowed)
    module = compile_program(lower(load_graph(small_model())), native_target(), threads, NoSource())
    inputs = {"x": random_input()}
    outputs = {"y": np.empty((1, 7), np.float32), "d": np.empty((1, 12, 10, 10), np.float32)}
    for _ in range(RUNS):
        module.run_into(inputs, outputs)
    gc.collect()
    _allow_only(seccomp, allowed)
    for _ in range(RUNS):
        module.run_into(inputs, outputs)
    os._exit(0)


if __name__ == "__main__":
    main()
