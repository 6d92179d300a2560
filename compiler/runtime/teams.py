"""Teams in this process's memory: threads that run the phases of any program, one run after the other.

Modules share them: what runs next takes the team that ran last, whose members are awake. With a team each, those of a
model that has just run would spin on the cores that the next model's members need, for a few milliseconds; a model in
segments, or an encoder and its decoder, would take turns at a fraction of their speed.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable
from typing import Protocol

import numpy as np

from compiler.codegen.team import SIZE_OFFSET, team_bytes
from compiler.errors import InputError

# Code must outlive the threads that run it. The garbage collector finalises a cycle in any order, so open Teams hold
# their starter here, and whatever is still open is closed before the interpreter goes down.
_OPEN: weakref.WeakSet[Team] = weakref.WeakSet()
_IN_USE: dict[int, Starter] = {}  # by the team's id


class Starter(Protocol):
    """Code that has a team's functions (compiler/codegen/team.py): the threads' own loop is in it."""

    @property
    def start(self) -> Callable[[int], int]: ...  # noqa: D102
    @property
    def stop(self) -> Callable[[int], None]: ...  # noqa: D102


class Team:
    """The caller of a run and the threads that help. One run at a time."""

    def __init__(self, starter: Starter, threads: int) -> None:
        """Start the threads. Raises InputError where the system gives no more."""
        if threads < 1:
            msg = f"{threads} threads; use at least 1"
            raise InputError(msg)
        self.state = np.zeros(team_bytes(threads), np.uint8)
        self.state[SIZE_OFFSET : SIZE_OFFSET + 4].view(np.int32)[0] = threads
        self.address, self.threads = self.state.ctypes.data, threads
        self._starter = starter
        self._open = True
        _OPEN.add(self)
        _IN_USE[id(self)] = starter
        error = starter.start(self.address)
        if error:
            self.close()
            msg = f"the system refused thread {threads} of the team (error {error}); use fewer threads"
            raise InputError(msg)

    def abandon(self) -> None:
        """Its threads are not there to be ended."""
        self._open = False
        _IN_USE.pop(id(self), None)

    def close(self) -> None:
        """End the threads. There must be no run, now or later."""
        if self._open:
            self._open = False
            self._starter.stop(self.address)
            _IN_USE.pop(id(self), None)

    def __del__(self) -> None:
        if getattr(self, "_open", False):
            self.close()


class Teams:
    """Teams without a run, for whoever has one; they end when nobody is left who may have."""

    def __init__(self) -> None:
        """None yet."""
        self._idle: defaultdict[int, list[Team]] = defaultdict(list)
        self._users = 0
        self._lock = threading.RLock()  # a finaliser may run while it is held

    @property
    def idle(self) -> int:
        """How many there are."""
        return sum(map(len, self._idle.values()))

    def enter(self) -> None:
        """Somebody may have runs."""
        with self._lock:
            self._users += 1

    def leave(self) -> None:
        """Somebody has none any more."""
        idle: list[Team] = []
        with self._lock:
            self._users -= 1
            if not self._users:
                idle = [team for teams in self._idle.values() for team in teams]
                self._idle.clear()
        for team in idle:
            team.close()

    def take(self, starter: Starter, threads: int) -> Team:
        """A team of this size for a run, the one that ran last; give it back. Raises InputError as Team does."""
        # Taking one from a list is one step, which needs no lock.
        try:
            return self._idle[threads].pop()
        except IndexError:
            return Team(starter, threads)

    def forget(self) -> None:
        """In a process that was forked: it has none of the threads, and nobody who would let go of the lock."""
        self._lock = threading.RLock()
        self._idle.clear()

    def give(self, team: Team) -> None:
        """Its run is over."""
        self._idle[team.threads].append(team)


TEAMS = Teams()
"""Those of this process."""


@atexit.register
def _close_all() -> None:
    for team in list(_OPEN):
        team.close()


def _after_fork() -> None:
    for team in list(_OPEN):
        team.abandon()
    TEAMS.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
