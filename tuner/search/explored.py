"""Explored: the part of a SearchSpace that a strategy has seen, so that nothing is proposed twice."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from typing import TypeGuard

from compiler.errors import ScheduleError
from compiler.space.space import Assignment, SearchSpace
from tuner.candidate import Candidate
from tuner.measure import Measured, MeasureResult

SCAN_LIMIT = 1 << 16
"""Spaces of at most so many assignments are looked through, one after the other, once sampling finds nothing new."""
_SAMPLES_PER_CANDIDATE = 8


class Explored:
    """Candidates by assignment, what was proposed or observed, and what was measured (fastest first).

    `first` are the candidates to propose before any other, such as the default and the log's record.
    """

    def __init__(self, space: SearchSpace, first: Sequence[Candidate] = ()) -> None:
        self.space = space
        self.measured: list[tuple[float, Candidate]] = []
        self._first = list(first)
        self._seen: set[str] = set()
        self._assigned: set[Assignment] = set()
        self._candidates: dict[Assignment, Candidate | None] = {}

    @property
    def count(self) -> int:
        """Candidates that were proposed or observed."""
        return len(self._seen)

    def candidate(self, assignment: Assignment) -> Candidate | None:
        """The Candidate of a legal assignment; None where its Schedule cannot be built."""
        if assignment not in self._candidates:
            try:
                made = Candidate(self.space.schedule(assignment), assignment)
            except ScheduleError:
                made = None
            self._candidates[assignment] = made
        return self._candidates[assignment]

    def is_new(self, candidate: Candidate | None) -> TypeGuard[Candidate]:
        """Whether it was neither proposed nor observed."""
        return candidate is not None and candidate.digest not in self._seen

    def may_be_new(self, candidate: Candidate | None) -> TypeGuard[Candidate]:
        """Whether it may be new, told by its assignment: quicker, and two assignments may have one Schedule."""
        return candidate is not None and candidate.assignment not in self._assigned

    def take(self, candidates: Sequence[Candidate | None], count: int) -> list[Candidate]:
        """The first `count` new ones, from now on known as proposed."""
        taken: list[Candidate] = []
        for candidate in candidates:
            if len(taken) == count:
                break
            if self.is_new(candidate):
                self._see(candidate)
                taken.append(candidate)
        return taken

    def take_first(self, count: int) -> list[Candidate]:
        """The next of `first` that are still new."""
        taken = self.take(self._first, count)
        self._first = [c for c in self._first if self.is_new(c)]
        return taken

    def take_uniform(self, count: int, rng: random.Random) -> list[Candidate]:
        """New candidates sampled uniformly; a scan of the space tops them up when samples repeat."""
        taken: list[Candidate] = []
        for _ in range(count * _SAMPLES_PER_CANDIDATE):
            if len(taken) == count:
                return taken
            taken += self.take([self.candidate(self.space.sample(rng))], 1)
        return taken + self.take_scanned(count - len(taken))

    def take_scanned(self, count: int) -> list[Candidate]:
        """The next new candidates in lexicographic order; none in a space beyond SCAN_LIMIT."""
        if count <= 0 or self.space.size > SCAN_LIMIT:
            return []
        return self.take(list(itertools.islice(self.new_assignments(SCAN_LIMIT), count)), count)

    def observe(self, candidates: Sequence[Candidate], results: Sequence[MeasureResult]) -> None:
        """Keep the times of those that have one; all are known from now on."""
        for candidate, result in zip(candidates, results, strict=True):
            self._see(candidate)
            if isinstance(result, Measured):
                self.measured.append((result.median_s, candidate))
        self.measured.sort(key=lambda entry: (entry[0], entry[1].digest))

    def _see(self, candidate: Candidate) -> None:
        self._seen.add(candidate.digest)
        if candidate.assignment is not None:
            self._assigned.add(candidate.assignment)

    def rng(self, seed: int) -> random.Random:
        """A generator that depends on the seed and on what is known, so that a resumed search goes on likewise."""
        return random.Random(f"{seed}:{len(self._seen)}")

    def new_assignments(self, limit: int) -> Iterator[Candidate]:
        """New candidates among the first `limit` legal assignments."""
        for assignment in self.space.enumerate(limit):
            candidate = self.candidate(assignment)
            if self.is_new(candidate):
                yield candidate
