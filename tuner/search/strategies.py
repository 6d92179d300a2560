"""The strategies by name, as the options of a session give them.

Another package adds one by an entry point of the group `luthier.strategies`: its name, and a callable that takes what
`make_strategy` hands on, (space, scorer, seed, first), and returns a SearchStrategy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points

from compiler.errors import InputError
from compiler.space.space import SearchSpace
from tuner.candidate import Candidate
from tuner.search.evolutionary import EvolutionaryStrategy
from tuner.search.exhaustive import ExhaustiveStrategy
from tuner.search.protocol import Scorer, SearchStrategy
from tuner.search.random import RandomStrategy

Maker = Callable[[SearchSpace, Scorer, int, Sequence[Candidate]], SearchStrategy]

GROUP = "luthier.strategies"
STRATEGIES: Mapping[str, Maker] = {
    "evolutionary": lambda space, scorer, seed, first: EvolutionaryStrategy(space, scorer, seed, first),
    "random": lambda space, scorer, seed, first: RandomStrategy(space, seed, [*first, *_starts(space)]),
    "exhaustive": lambda space, scorer, seed, first: ExhaustiveStrategy(space, first),
}
_UNRANKED = frozenset({"random", "exhaustive"})


def _starts(space: SearchSpace) -> list[Candidate]:
    return [Candidate(space.schedule(start), start) for start in space.starts]


def is_ranked(name: str) -> bool:
    """Whether a strategy may ask the cost model; for the others none is trained."""
    return name not in _UNRANKED


def check_strategy(name: str) -> None:
    """Raise InputError, with the known names, where there is no such strategy."""
    if name not in STRATEGIES and name not in (others := _others()):
        msg = f"unknown strategy {name!r}; use one of {', '.join([*STRATEGIES, *others])}"
        raise InputError(msg)


def make_strategy(
    name: str, space: SearchSpace, scorer: Scorer, seed: int, first: Sequence[Candidate]
) -> SearchStrategy:
    """A strategy that proposes `first` before anything else; raises InputError on an unknown name."""
    check_strategy(name)
    maker: Maker = STRATEGIES[name] if name in STRATEGIES else _others()[name].load()
    return maker(space, scorer, seed, first)


def _others() -> dict[str, EntryPoint]:
    """Those of other packages; the names of our own are taken."""
    return {entry.name: entry for entry in entry_points(group=GROUP) if entry.name not in STRATEGIES}
