"""Variation: how a search gets from assignments that it knows to others, with what the knobs say of themselves.

step        one knob to the next place up or down: neighbouring choices behave alike
exchange    a factor moves between two numbers of one tile: one grows, the other shrinks about as much, so that
            what both fill together (registers, the body of a loop) stays full
redraw      one knob to any of its choices
cross       each knob from either parent; half of the time the numbers of a tile, which have to fit together, come
            from one
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from compiler.space.space import Assignment, Knob, SearchSpace

STEP, EXCHANGE = 0.4, 0.3
"""Parts of the mutations; the rest redraws."""
_TRIES = 50
_CROSSINGS = 10


class Variation:
    """Mutants and crossings of one SearchSpace; all of them legal."""

    def __init__(self, space: SearchSpace) -> None:
        """Tell numbers from words, and the knobs of one tile from those of another."""
        self._space = space
        self._free = [i for i, knob in enumerate(space.knobs) if len(knob.choices) > 1]
        groups: dict[tuple[str, bool], list[int]] = {}
        for i in self._free:
            groups.setdefault(_group(space.knobs[i]), []).append(i)
        self._groups = list(groups.values())
        self._singles = [[i] for i in self._free]
        numbers = [places for (_, numeric), places in groups.items() if numeric]
        self._pairs = [(i, j) for places in numbers for i in places for j in places if i != j]

    def mutate(self, assignment: Assignment, rng: random.Random) -> Assignment:
        """Another legal assignment, near or far; the same one when none is found."""
        for _ in range(_TRIES if self._free else 0):
            mutant = self._mutant(assignment, rng)
            if mutant != assignment and self._space.is_legal(mutant):
                return mutant
        return assignment

    def cross(self, mother: Assignment, father: Assignment, rng: random.Random) -> Assignment:
        """Each knob or group from either parent; a mutant of the mother where no crossing is legal and new."""
        for _ in range(_CROSSINGS):
            child = list(mother)
            for places in self._groups if rng.random() < 0.5 else self._singles:
                if rng.random() < 0.5:
                    for i in places:
                        child[i] = father[i]
            found = tuple(child)
            if found not in (mother, father) and self._space.is_legal(found):
                return found
        return self.mutate(mother, rng)

    def _mutant(self, assignment: Assignment, rng: random.Random) -> Assignment:
        kind = rng.random()
        if kind < EXCHANGE and self._pairs:
            return self._exchanged(assignment, *rng.choice(self._pairs), rng)
        place = rng.choice(self._free)
        last = len(self._space.knobs[place].choices) - 1
        if kind < EXCHANGE + STEP:
            choice = min(last, max(0, assignment[place] + rng.choice((-1, 1))))
        else:
            choice = rng.randint(0, last)
        return _with(assignment, place, choice)

    def _exchanged(self, assignment: Assignment, up: int, down: int, rng: random.Random) -> Assignment:
        """One or two places up in one knob, and down in another by about the same factor."""
        ups, downs = self._space.knobs[up].choices, self._space.knobs[down].choices
        to = min(len(ups) - 1, assignment[up] + rng.choice((1, 1, 2)))
        wanted = _number(downs[assignment[down]]) * _number(ups[assignment[up]]) / _number(ups[to])
        nearest = min(range(len(downs)), key=lambda i: abs(_number(downs[i]) - wanted))
        return _with(_with(assignment, up, to), down, nearest)


def _group(knob: Knob) -> tuple[str, bool]:
    """The tile that a knob belongs to, and whether its choices are numbers."""
    _, _, tile = knob.name.partition(".")
    return tile, all(isinstance(choice, int) and choice > 0 for choice in knob.choices)


def _number(choice: object) -> int:
    return choice if isinstance(choice, int) else 1


def _with(assignment: Sequence[int], place: int, choice: int) -> Assignment:
    return (*assignment[:place], choice, *assignment[place + 1 :])
