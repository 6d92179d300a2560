"""PhaseClock: where the time of a session goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, get_args

Phase = Literal["search", "model", "build", "verify", "time", "store"]
"""What the session does itself (search, model, store), and what it waits for (build, verify, time)."""


class PhaseClock:
    """Seconds per phase, from its creation on. A phase inside another is counted as itself alone."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        """`now_s`: a clock that never goes back."""
        self._now_s = now_s
        self._start_s = now_s()
        self._spent_s: dict[Phase, float] = dict.fromkeys(get_args(Phase), 0.0)
        self._inner_s = 0.0

    @property
    def elapsed_s(self) -> float:
        """Seconds since creation."""
        return self._now_s() - self._start_s

    @contextmanager
    def phase(self, name: Phase) -> Iterator[None]:
        """Count the time inside towards a phase."""
        outer_inner_s, self._inner_s = self._inner_s, 0.0
        start_s = self._now_s()
        try:
            yield
        finally:
            whole_s = self._now_s() - start_s
            self._spent_s[name] += whole_s - self._inner_s
            self._inner_s = outer_inner_s + whole_s

    def add(self, name: Phase, seconds: float) -> None:
        """Count time that passed outside of any phase towards one."""
        self._spent_s[name] += seconds

    def seconds(self) -> dict[str, float]:
        """Seconds per phase; "wait" is what no phase accounts for, so that they sum to the elapsed time."""
        spent = {str(name): seconds for name, seconds in self._spent_s.items()}
        return {**spent, "wait": max(0.0, self.elapsed_s - sum(spent.values()))}
