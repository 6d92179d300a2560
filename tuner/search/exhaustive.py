"""Exhaustive search: every legal assignment in lexicographic order, for small spaces and for studies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from compiler.space.space import SearchSpace
from tuner.candidate import Candidate
from tuner.measure import MeasureResult
from tuner.search.explored import Explored


class ExhaustiveStrategy:
    """All of the space, however large; ends when it is through."""

    def __init__(self, space: SearchSpace, first: Sequence[Candidate] = ()) -> None:
        self._explored = Explored(space, first)
        self._rest: Iterator[Candidate] = self._explored.new_assignments(space.size)

    def propose(self, count: int) -> list[Candidate]:
        """Those of `first`, then the next of the space."""
        proposed = self._explored.take_first(count)
        while len(proposed) < count:
            candidate = next(self._rest, None)
            if candidate is None:
                break
            proposed += self._explored.take([candidate], 1)
        return proposed

    def observe(self, candidates: Sequence[Candidate], results: Sequence[MeasureResult]) -> None:
        """Remember what was measured."""
        self._explored.observe(candidates, results)
