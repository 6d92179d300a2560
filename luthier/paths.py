"""Paths: which segment followed which in earlier runs, so that a run like one of them need not look for any.

    inputs of these shapes → segment A → n = 48 → segment B for n = 48 → outputs
                                       → n = 52 → segment B for n = 52 → outputs

The kinds of a segment's results follow from those of the values that it was found for. So what comes next is found by
the content of the values that the next one must know, and by the kinds of what a loop left behind, and by nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Union

from compiler.frontend.loops import LoopPlan
from compiler.frontend.segment import Given, content
from luthier.compiled import CompiledSegment, Ready
from luthier.iterations import Iterations, iterations_of
from luthier.values import Key, Value, array_of, value_at

_MOST = 1 << 12
"""Steps that are remembered."""


class Step:
    """A segment at certain sizes, and what came after it.

    Attributes:
        then: where runs go on.
        bodies: the iterations of the loop that it asks a driver for.
    """

    __slots__ = ("_iterations", "bodies", "ready", "then")

    def __init__(self, ready: Ready) -> None:
        """Nothing came after it yet."""
        self.ready, self.then, self.bodies = ready, Crossing(), Crossing()
        self._iterations: tuple[Iterations | None] | None = None

    @property
    def compiled(self) -> CompiledSegment:
        """The segment."""
        return self.ready.compiled

    def iterations(self, plan: LoopPlan) -> Iterations | None:
        """The iterations of the loop of which this is the body; None where they need a driver in between."""
        if self._iterations is None:
            self._iterations = (iterations_of(plan, self.ready),)
        return self._iterations[0]


class _Question:
    """A value that must be known, and what came next by its content."""

    __slots__ = ("given", "ways")

    def __init__(self, given: Given) -> None:
        self.given = given
        self.ways: dict[Key, _Way] = {}


_Way = Union[Step, _Question]


class Crossing:
    """A place from which runs went on in different ways."""

    __slots__ = ("_ways",)

    def __init__(self) -> None:
        """None so far."""
        self._ways: dict[Key, _Way] = {}

    def find(self, key: Key, values: Mapping[str, Value]) -> Step | None:
        """The step for these values. `key`: what their kinds are, as far as it does not follow from the way here."""
        way = self._ways.get(key)
        while isinstance(way, _Question):
            way = way.ways.get(content(array_of(value_at(values, way.given))))
        return way

    def add(self, key: Key, asked: Sequence[Given], values: Mapping[str, Value], step: Step) -> None:
        """Another step; `asked`: the values on whose content it depended, in the order in which they were looked at."""
        ways = self._ways
        for given in asked:
            question = ways.get(key)
            # What was asked before may have been given up since.
            if not isinstance(question, _Question) or question.given != given:
                question = ways[key] = _Question(given)
            ways, key = question.ways, content(array_of(value_at(values, given)))
        ways[key] = step


class Paths:
    """All steps of a model, from its inputs on, up to a bound."""

    def __init__(self) -> None:
        """None so far."""
        self.start = Crossing()
        self._steps = 0

    def add(
        self, crossing: Crossing, key: Key, asked: Sequence[Given], values: Mapping[str, Value], step: Step
    ) -> None:
        """Remember a step; see `Crossing.add`."""
        if self._steps >= _MOST:
            self.clear()
        self._steps += 1
        crossing.add(key, asked, values, step)

    def clear(self) -> None:
        """Forget all, and with it the segments. Runs that are on their way go on as they are."""
        self.start, self._steps = Crossing(), 0
