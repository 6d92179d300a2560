"""SearchSpace: what may be decided about a Workload on a Target.

    space ::= SearchSpace(knobs, build)      rules made the knobs; `build` turns an assignment into a Schedule
    knob  ::= Knob(name, choices)            a named, finite, ordered choice

An assignment is one choice index per knob, in the order of the knobs.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from compiler.schedule.schedule import Schedule

Value = int | str | tuple[int, ...] | tuple[str, ...]
Assignment = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Knob:
    """A named choice. Neighbouring choices should behave alike, so that a mutation by one place is a small change.

    What follows a dot in the name tells the tile that a knob belongs to, where there are several.
    """

    name: str
    choices: tuple[Value, ...]


@dataclass(frozen=True)
class SearchSpace:
    """All schedules that the rules allow for one Workload on one Target and thread count.

    Attributes:
        knobs: the decisions.
        default: the assignment that the analytic rules pick without measuring; always legal.
        legal: whether an assignment respects the Target's limits (registers, cache, work for every thread).
        build: the Schedule of an assignment (given the knobs' values by name).
        error: of the default, relative to the largest output, hardly ever exceeded; 0 for that of any order of sums.
        careful: the default where `error` is too much.
        starts: further legal assignments that the rules think well of (one per algorithm); a search begins there.
    """

    knobs: tuple[Knob, ...]
    default: Assignment
    legal: Callable[[dict[str, Value]], bool]
    build: Callable[[dict[str, Value]], Schedule]
    starts: tuple[Assignment, ...] = ()
    error: float = 0.0
    careful: Assignment | None = None

    def within(self, error_budget: float) -> SearchSpace:
        """The space whose default keeps to a budget, as far as rounding can be foretold."""
        if self.careful is None or self.error <= error_budget:
            return self
        return replace(self, default=self.careful, error=0.0, careful=None)

    @property
    def size(self) -> int:
        """Number of assignments, legal or not."""
        return math.prod(len(knob.choices) for knob in self.knobs)

    def values(self, assignment: Assignment) -> dict[str, Value]:
        """The chosen value of each knob by name."""
        return {k.name: k.choices[i] for k, i in zip(self.knobs, assignment, strict=True)}

    def is_legal(self, assignment: Assignment) -> bool:
        """Whether the assignment may be built."""
        return self.legal(self.values(assignment))

    def schedule(self, assignment: Assignment) -> Schedule:
        """The Schedule of a legal assignment."""
        return self.build(self.values(assignment))

    def sample(self, rng: random.Random, tries: int = 200) -> Assignment:
        """A uniform legal assignment; the default when none is found in `tries`."""
        for _ in range(tries):
            assignment = tuple(rng.randrange(len(knob.choices)) for knob in self.knobs)
            if self.is_legal(assignment):
                return assignment
        return self.default

    def enumerate(self, limit: int) -> Iterator[Assignment]:
        """Legal assignments in lexicographic order, at most `limit` of them."""
        found = 0
        for flat in range(self.size):
            if found >= limit:
                return
            rest, choices = flat, []
            for knob in reversed(self.knobs):
                rest, choice = divmod(rest, len(knob.choices))
                choices.append(choice)
            assignment = tuple(reversed(choices))
            if self.is_legal(assignment):
                found += 1
                yield assignment


def number(values: dict[str, Value], name: str, default: int = 1) -> int:
    """A knob's value as a number."""
    value = values.get(name, default)
    return value if isinstance(value, int) else default
