"""Evolutionary search (default): generations of mutants and crossings, selected by the cost model.

A round starts from the best measured candidates and uniform samples: those of the rounds before, which are scored
again at no cost, and a few more; the oldest of many leave. Each generation scores the population, keeps its better part
and fills up with children. What the cost model likes best of all that was seen is proposed, with a share of uniform
samples so that a wrong model is found out. Small spaces are scored whole instead.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from compiler.space.space import Assignment, SearchSpace
from tuner.candidate import Candidate
from tuner.measure import MeasureResult
from tuner.search.explored import Explored
from tuner.search.protocol import Scorer
from tuner.search.variation import Variation

_TRIES = 10


@dataclass(frozen=True, slots=True)
class EvolutionaryOptions:
    """Sizes and rates of the search.

    Attributes:
        founders: uniform samples that the first round starts from; later ones start from up to twice as many.
        growth: so many more for each candidate that has been proposed.
        elite: best measured candidates that a round starts from.
        children: candidates that are added per generation.
        generations: how often they are in a round.
        mutation: part of the children made from one parent; the rest crosses two.
        survivors: candidates of a generation that may have children.
        uniform_share: part of the proposals that the cost model has no say in.
        whole_limit: spaces of at most so many assignments are scored whole.
    """

    founders: int = 256
    growth: float = 0.5
    elite: int = 19
    children: int = 64
    generations: int = 2
    mutation: float = 0.7
    survivors: int = 18
    uniform_share: float = 0.08
    whole_limit: int = 384


class EvolutionaryStrategy:
    """Evolution under the scores of a cost model; half neighbours, half uniform samples while it knows nothing."""

    def __init__(
        self,
        space: SearchSpace,
        scorer: Scorer,
        seed: int = 0,
        first: Sequence[Candidate] = (),
        options: EvolutionaryOptions | None = None,
        variation: Variation | None = None,
    ) -> None:
        self._explored = Explored(space, first)
        self._variation = variation or Variation(space)
        self._space = space
        self._scorer = scorer
        self._seed = seed
        self._options = options or EvolutionaryOptions()
        self._uniform: deque[Assignment] = deque(maxlen=2 * self._options.founders)
        self._drawn = 0
        self._samples = random.Random(f"{seed}:founders")

    def observe(self, candidates: Sequence[Candidate], results: Sequence[MeasureResult]) -> None:
        """Remember what was measured: the best are the parents of the next round."""
        self._explored.observe(candidates, results)

    def propose(self, count: int) -> list[Candidate]:
        """Those of `first`, then the choice of the cost model with some uniform samples."""
        rng = self._explored.rng(self._seed)
        proposed = self._explored.take_first(count)
        proposed += self._ranked(count - len(proposed), rng)
        return proposed + self._explored.take_uniform(count - len(proposed), rng)

    def _ranked(self, count: int, rng: random.Random) -> list[Candidate]:
        """What the cost model chooses, less the share of uniform samples; neighbours of the best without a model."""
        uniform = self._options.uniform_share * count
        wanted = count - int(uniform) - (rng.random() < uniform % 1)
        if wanted <= 0:
            return []
        scored = _Scored(self._scorer)
        if self._space.size <= self._options.whole_limit:
            pool = list(self._explored.new_assignments(self._space.size))
        else:
            pool = self._evolve(rng, scored)
        ranking = scored.ranking(pool)
        if not ranking:
            return self._guessed(count, rng)
        return self._explored.take(_spread(ranking, wanted), wanted)

    def _guessed(self, count: int, rng: random.Random) -> list[Candidate]:
        """Where the rules begin, and then neighbours of the best, half of what is wanted."""
        begun = self._explored.take([self._explored.candidate(a) for a in self._space.starts], count)
        return begun + self._neighbours(-(-(count - len(begun)) // 2), rng)

    def _neighbours(self, count: int, rng: random.Random) -> list[Candidate]:
        """New mutants of the best that is known."""
        parents = self._parents()[:3] or [self._space.default]
        mutants = [self._variation.mutate(parents[i % len(parents)], rng) for i in range(count * _TRIES)]
        return self._explored.take([self._explored.candidate(m) for m in mutants], count)

    def _evolve(self, rng: random.Random, scored: _Scored) -> list[Candidate]:
        """All new candidates of a round's generations; empty while the cost model knows nothing."""
        population = self._founders()
        everyone = dict.fromkeys(population)
        for _ in range(self._options.generations):
            parents = self._survivors(population, scored)
            if not parents:
                return []
            children = self._children(parents, rng)
            population = list(dict.fromkeys((*parents, *children)))
            everyone |= dict.fromkeys(population)
        candidates = (self._explored.candidate(assignment) for assignment in everyone)
        return [c for c in candidates if self._explored.may_be_new(c)]

    def _survivors(self, population: Sequence[Assignment], scored: _Scored) -> list[Assignment]:
        """The best of a population, best first; empty while the cost model knows nothing."""
        ranking = scored.ranking([c for c in map(self._explored.candidate, population) if c is not None])
        kept = ranking[: self._options.survivors]
        return [candidate.assignment for candidate in kept if candidate.assignment is not None]

    def _founders(self) -> list[Assignment]:
        """The first population: the best measured, the default, where the rules begin, and uniform samples.

        Those are of one stream, so that a search that is resumed starts from the same.
        """
        wanted = self._options.founders + int(self._options.growth * self._explored.count)
        while self._drawn < wanted:
            self._uniform.append(self._space.sample(self._samples))
            self._drawn += 1
        best = self._parents()[: self._options.elite]
        return list(dict.fromkeys((*best, self._space.default, *self._space.starts, *self._uniform)))

    def _parents(self) -> list[Assignment]:
        measured = (candidate.assignment for _, candidate in self._explored.measured)
        return [assignment for assignment in measured if assignment is not None]

    def _children(self, parents: Sequence[Assignment], rng: random.Random) -> list[Assignment]:
        children = []
        for _ in range(self._options.children):
            mother, father = rng.choice(parents), rng.choice(parents)
            alone = mother == father or rng.random() < self._options.mutation
            children.append(
                self._variation.mutate(mother, rng) if alone else self._variation.cross(mother, father, rng)
            )
        return children


class _Scored:
    """What the cost model thinks of the candidates of a round: it is asked once for each."""

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer
        self._scores: dict[Assignment, float] = {}

    def ranking(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Candidates with an assignment, best first; empty while the cost model knows nothing."""
        named = [(c.assignment, c) for c in candidates if c.assignment is not None]
        new = {assignment: c for assignment, c in named if assignment not in self._scores}
        if new:
            scores = self._scorer(list(new.values()))
            if scores is None:
                return []
            self._scores |= zip(new, map(float, scores), strict=True)
        return [c for assignment, c in sorted(named, key=lambda entry: (-self._scores[entry[0]], entry[0]))]


def _spread(ranking: Sequence[Candidate], count: int) -> list[Candidate]:
    """The ranking with `count` candidates in front: its first half, and others two knobs or more from all of them.

    Neighbours of one candidate have nearly its score: a batch of them would teach little where the model is wrong.
    """
    front: list[Candidate] = []
    rest: list[Candidate] = []
    for candidate in ranking:
        due = len(front) < count
        apart = len(front) < count // 2 or all(_distance(candidate, other) > 1 for other in front)
        (front if due and apart else rest).append(candidate)
    return front + rest


def _distance(one: Candidate, other: Candidate) -> int:
    """Knobs in which two candidates of one space differ."""
    return sum(a != b for a, b in zip(one.assignment or (), other.assignment or (), strict=True))
