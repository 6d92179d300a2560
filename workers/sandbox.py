"""What a child gives up before it runs code that nobody has checked.

Each step is applied where the system allows it and named in the tier, such as
"rlimits+no_new_privs+netns+landlock+no_capabilities+nproc+pdeathsig"; elsewhere less is left, and the tier says so.
Linux has them all; other POSIX systems have the resource limits.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import struct
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
_LANDLOCK_CREATE_RULESET, _LANDLOCK_RESTRICT_SELF = 444, 446  # the same on every architecture
_LANDLOCK_ABI_QUERY = 1
_CAPABILITY_VERSION_3 = 0x20080522
ADDRESS_SPACE = 4
_OPEN_FILES = 64
_SPARE_PROCESSES = 4


@dataclass(frozen=True, slots=True)
class Limits:
    """What the child may use from now on.

    Attributes:
        memory_bytes: memory beyond what it has now. The parent watches what is resident and ends the child above it;
            the address space is limited to ADDRESS_SPACE times that: the parent sees it before an allocation fails.
        cpu_s: seconds of processor time, all threads together, beyond what it has used; None for no limit.
        threads: how many threads it needs at once.
    """

    memory_bytes: int
    cpu_s: int | None = None
    threads: int = 1


@dataclass(frozen=True, slots=True)
class Usage:
    """Memory of a process in bytes: address space, resident now, and the most that was ever resident."""

    vm: int
    resident: int
    peak_resident: int


def apply(limits: Limits) -> str:
    """Apply every step that works here, once, from a process with one thread; the tier as text."""
    root = os.getuid() == 0
    parent = os.getppid()
    steps: tuple[tuple[str, Callable[[], bool]], ...] = (
        ("rlimits", partial(_limit_resources, limits)),
        ("no_new_privs", lambda: _prctl(_PR_SET_NO_NEW_PRIVS, 1)),
        ("netns", _leave_network),
        ("landlock", _forbid_writes),
        ("no_capabilities", _drop_capabilities),
        ("nproc", lambda: not root and _limit_processes(limits.threads)),
        # Last, because a change of credentials clears it.
        ("pdeathsig", lambda: die_with_parent(parent)),
    )
    return "+".join(name for name, step in steps if step()) or "none"


def enter(limits: Mapping[str, Any]) -> dict[str, Any]:
    """Apply `Limits(**limits)`; the tier, and the memory that the limits count from, as JSON."""
    tier = apply(Limits(**limits))
    return {"sandbox": tier, "usage": used()}


def used() -> list[int]:
    """The fields of `usage` in order, as JSON."""
    now = usage()
    return [now.vm, now.resident, now.peak_resident]


def allow_cpu(seconds: int) -> None:
    """Limit processor time, all threads together, to so many seconds from now on; it may be called again."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    spent = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(spent.ru_utime + spent.ru_stime) + 1 + seconds
    resource.setrlimit(
        resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard)
    )


def die_with_parent(parent: int) -> bool:
    """Have the kernel kill this process when the thread that started it ends; exits at once if it already has."""
    done = _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    return done


def usage() -> Usage:
    """Memory of this process; zeros where the system does not tell."""
    vm, resident = process_memory(os.getpid()) or (0, 0)
    return Usage(vm, resident, peak_resident_bytes(resource.getrusage(resource.RUSAGE_SELF)))


def process_memory(pid: int) -> tuple[int, int] | None:
    """Bytes of address space and resident bytes of a process, or None where the system does not tell."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()
    except OSError:
        return None
    return int(pages[0]) * resource.getpagesize(), int(pages[1]) * resource.getpagesize()


def peak_resident_bytes(rusage: resource.struct_rusage) -> int:
    """`ru_maxrss` in bytes: kernels disagree on its unit."""
    return rusage.ru_maxrss if sys.platform == "darwin" else rusage.ru_maxrss << 10


def _limit_resources(limits: Limits) -> bool:
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_FSIZE, 0)
    _lower(resource.RLIMIT_NOFILE, _OPEN_FILES)
    if limits.cpu_s is not None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        # The soft limit first: it is a signal of its own, the hard one just kills.
        _lower(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime) + 1 + limits.cpu_s, slack=1)
    held = process_memory(os.getpid())
    return held is not None and _lower(resource.RLIMIT_AS, held[0] + ADDRESS_SPACE * limits.memory_bytes)


def _lower(what: int, limit: int, slack: int = 0) -> bool:
    """Lower the soft limit to `limit` and the hard one to `slack` more; a hard one that is lower already stays."""
    _, hard = resource.getrlimit(what)
    most = limit + slack if hard == resource.RLIM_INFINITY else min(limit + slack, hard)
    try:
        resource.setrlimit(what, (min(limit, most), most))
    except (OSError, ValueError):
        return False
    return True


def _limit_processes(threads: int) -> bool:
    """Only where the count is this child's own (in its user namespace): elsewhere it would stop its own threads."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    wanted = threads + _SPARE_PROCESSES
    if hard != resource.RLIM_INFINITY and hard < wanted:
        return False
    resource.setrlimit(resource.RLIMIT_NPROC, (wanted, hard))
    if not _threads_start(threads + 1):
        resource.setrlimit(resource.RLIMIT_NPROC, (soft, hard))
        return False
    resource.setrlimit(resource.RLIMIT_NPROC, (wanted, wanted))
    return True


def _threads_start(count: int) -> bool:
    release = threading.Event()
    team = [threading.Thread(target=release.wait, daemon=True) for _ in range(count)]
    try:
        for thread in team:
            thread.start()
    except RuntimeError:
        return False
    finally:
        release.set()
        for thread in team:
            if thread.ident is not None:
                thread.join()
    return True


def _leave_network() -> bool:
    """A network namespace of its own, without any interface; the user namespace is what allows it."""
    return _call("unshare", _CLONE_NEWUSER | _CLONE_NEWNET) or _call("unshare", _CLONE_NEWNET)


def _forbid_writes() -> bool:
    """Landlock without a rule: no file is written, made, removed or executed; no TCP; no signal to others."""
    abi = _syscall(_LANDLOCK_CREATE_RULESET, None, 0, _LANDLOCK_ABI_QUERY)
    if abi < 1:
        return False
    ruleset = _landlock_ruleset(abi)
    descriptor = _syscall(_LANDLOCK_CREATE_RULESET, ruleset, len(ruleset), 0)
    if descriptor < 0:
        return False
    try:
        return _syscall(_LANDLOCK_RESTRICT_SELF, descriptor, 0) == 0
    finally:
        os.close(descriptor)


def _landlock_ruleset(abi: int) -> bytes:
    """The kernel's landlock_ruleset_attr: every right that changes a file, plus what newer kernels know."""
    execute, write_file, remove_and_make = 1 << 0, 1 << 1, 0b111111111 << 4
    refer, truncate, device_control = 1 << 13, 1 << 14, 1 << 15
    files = execute | write_file | remove_and_make
    files |= (refer if abi >= 2 else 0) | (truncate if abi >= 3 else 0) | (device_control if abi >= 5 else 0)
    fields = [files]
    if abi >= 4:
        fields.append(0b11)  # bind and connect of TCP
    if abi >= 6:
        fields.append(0b11)  # abstract sockets, signals
    return struct.pack(f"<{len(fields)}Q", *fields)


def _drop_capabilities() -> bool:
    header = struct.pack("<Ii", _CAPABILITY_VERSION_3, 0)
    return _call("capset", header, bytes(24))


def _prctl(option: int, value: int) -> bool:
    return _call("prctl", option, value, 0, 0, 0)


def _call(name: str, *arguments: Any) -> bool:
    function = getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
    return function is not None and function(*map(_word, arguments)) == 0


def _syscall(number: int, *arguments: Any) -> int:
    if sys.platform != "linux":
        return -1
    function = ctypes.CDLL(None).syscall
    function.restype = ctypes.c_long
    return int(function(ctypes.c_long(number), *map(_word, arguments)))


def _word(argument: Any) -> Any:
    """Integers fill a whole register: variadic calls would leave its upper half undefined."""
    return ctypes.c_ulong(argument) if isinstance(argument, int) else argument
