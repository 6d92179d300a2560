"""Cores: where a team is timed and where candidates are built meanwhile, so that neither meets the other."""

from __future__ import annotations

import os
from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path

_TOPOLOGY = Path("/sys/devices/system/cpu")


@dataclass(frozen=True, slots=True)
class Cores:
    """Numbers of hardware threads, as the system counts them."""

    timing: frozenset[int]
    building: frozenset[int]


def cores_apart(threads: int) -> Cores | None:
    """Where to time a team of so many threads, a core each, and the cores that are left to build on.

    None where none is left, or the system does not let processes choose.
    """
    if not hasattr(os, "sched_getaffinity"):
        return None
    return split(_whole_cores(os.sched_getaffinity(0)), threads)


def split(cores: list[frozenset[int]], threads: int) -> Cores | None:
    """The last cores are timed on, by one hardware thread of each; the first ones are the system's own favourites.

    cores: hardware threads that share a core; what is built on one of them slows the other.
    """
    if not 0 < threads < len(cores):
        return None
    timing, building = cores[-threads:], cores[:-threads]
    return Cores(frozenset(min(core) for core in timing), frozenset[int]().union(*building))


def stay_on(cores: Set[int] | None) -> None:
    """Keep this thread, and the processes that it starts from now on, on these cores; None: where they are."""
    if cores is not None:
        os.sched_setaffinity(0, cores)


def _whole_cores(usable: Set[int]) -> list[frozenset[int]]:
    found = {_siblings(number) & usable for number in usable}
    return sorted(found, key=min)


def _siblings(number: int) -> frozenset[int]:
    """The hardware threads of one core; it alone where the system does not say."""
    try:
        text = (_TOPOLOGY / f"cpu{number}" / "topology" / "thread_siblings_list").read_text()
        return frozenset(_numbers(text)) | {number}
    except (OSError, ValueError):
        return frozenset({number})


def _numbers(text: str) -> set[int]:
    """Of a list such as "0-1,8"."""
    found: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found
