"""Random assignments of a space of which some knobs are given: far fewer tries than a draw of all knobs needs."""

from __future__ import annotations

import random
from collections.abc import Iterator

from compiler.space.space import Assignment, SearchSpace, Value

_TRIES = 20_000


def drawn(
    space: SearchSpace, rng: random.Random, tries: int = _TRIES, **given: Value
) -> Iterator[Assignment]:
    """Distinct legal assignments in which each knob of that name has that value, from so many tries.

    Raises ValueError where a knob has no such value.
    """
    choices = [
        [k.choices.index(given[k.name])] if k.name in given else range(len(k.choices)) for k in space.knobs
    ]
    seen = set()
    for _ in range(tries):
        assignment = tuple(rng.choice(places) for places in choices)
        if assignment not in seen and space.is_legal(assignment):
            yield assignment
        seen.add(assignment)
