"""Random search: uniform samples of the space; the baseline that every other strategy has to beat."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.space.space import SearchSpace
from tuner.candidate import Candidate
from tuner.measure import MeasureResult
from tuner.search.explored import Explored


class RandomStrategy:
    """Uniform samples without repetition."""

    def __init__(self, space: SearchSpace, seed: int = 0, first: Sequence[Candidate] = ()) -> None:
        self._explored = Explored(space, first)
        self._seed = seed

    def propose(self, count: int) -> list[Candidate]:
        """Those of `first`, then uniform samples."""
        proposed = self._explored.take_first(count)
        rng = self._explored.rng(self._seed)
        return proposed + self._explored.take_uniform(count - len(proposed), rng)

    def observe(self, candidates: Sequence[Candidate], results: Sequence[MeasureResult]) -> None:
        """Remember what was measured."""
        self._explored.observe(candidates, results)
