"""Candidate: a Schedule that has not been measured yet, and the assignment it came from."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.schedule.schedule import Schedule
from compiler.space.space import Assignment


@dataclass(frozen=True)
class Candidate:
    """A point of a SearchSpace."""

    schedule: Schedule
    assignment: Assignment | None = None

    @property
    def digest(self) -> str:
        """Digest of the Schedule: what makes two candidates the same."""
        return self.schedule.digest
