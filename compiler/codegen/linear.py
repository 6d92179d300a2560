"""Forms of index expressions in code: what is known of them, and the SSA values that the rest depends on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from compiler.errors import CompileError
from compiler.index import Atom, Index


class Linear(NamedTuple):
    """`const + lane * l + sum(coefficient * atom)`; atoms are SSA values, those of a product joined by `*`."""

    terms: tuple[tuple[Atom, int], ...]
    const: int
    lane: int


class Found(NamedTuple):
    """An atom as a multiple of an SSA value, or as a number where there is none; and what a lane adds to it."""

    value: str | None
    factor: int
    lane: int


Active = int | str
"""How many lanes are inside an extent: a number, or an SSA value where that is only known at run time."""
Lanes = tuple[str | None, int, Active]
"""Name of a vector loop, its lanes, and how many of them are active."""
Moment = tuple[int, str | None, str | None, Active]
"""Which names are bound, but for the numbers of unrolled loops: of an environment, the same until a name changes."""


@dataclass(slots=True)
class Prepared:
    """An expression that is resolved at many moments: what unrolled loops do not move is found once.

    Attributes:
        moment: of the names under which `terms`, `const` and `lane` hold.
        moving: names that are numbers there, and their coefficients; None where it has quotients or lookups.
    """

    index: Index
    moment: Moment | None = None
    terms: tuple[tuple[Atom, int], ...] = ()
    lane: int = 0
    moving: tuple[tuple[str, int], ...] | None = None


class LaneDependent(CompileError):
    """An index needs one value per lane; the caller goes lane by lane."""
