"""Owner: which process runs a job, so that a killed one is noticed at once and a live one is never robbed.

A process id alone is reused; with the boot it belongs to and the moment it started it is not.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Owner:
    """A process: the boot (and process namespace) it runs in, its id there, and when it started."""

    boot: str
    pid: int
    start: str


def this_process() -> Owner:
    """The process that asks."""
    pid = os.getpid()
    return Owner(_boot(), pid, _start(pid) or "")


def is_alive(owner: Owner) -> bool | None:
    """Whether it still runs; None where this machine cannot know (another machine, another container)."""
    if owner.boot != _boot():
        return None
    start = _start(owner.pid)
    return start is not None and start == owner.start


@cache
def _boot() -> str:
    """Boot id and process namespace; a fallback that still tells machines apart where there is no /proc."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115  (the link's text is no path)
    except OSError:
        return f"host/{os.uname().nodename}"


def _start(pid: int) -> str | None:
    """When the process started, in ticks since boot; None where there is no such process (or only its zombie)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return None if Path("/proc/self").exists() else _start_without_proc(pid)
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # the name before it may hold anything
    return None if fields[0] in ("Z", "X") else fields[19]


def _start_without_proc(pid: int) -> str | None:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return "unknown"
