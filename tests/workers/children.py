"""What the system says of processes."""

from __future__ import annotations

import os
from pathlib import Path


def living(pid: int) -> bool:
    """Whether a process runs; one that nobody has reaped yet does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def children() -> set[int]:
    """Our child processes, those that nobody has reaped included."""
    found = set()
    for folder in Path("/proc").iterdir():
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if folder.name.isdigit() and int(fields[1]) == os.getpid():
            found.add(int(folder.name))
    return found
