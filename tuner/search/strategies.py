"""The strategies by name, as the options of a session give them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from compiler.errors import InputError
from compiler.space.space import SearchSpace
from tuner.candidate import Candidate
from tuner.search.evolutionary import EvolutionaryStrategy
from tuner.search.exhaustive import ExhaustiveStrategy
from tuner.search.protocol import Scorer, SearchStrategy
from tuner.search.random import RandomStrategy

_Maker = Callable[[SearchSpace, Scorer, int, Sequence[Candidate]], SearchStrategy]

STRATEGIES: Mapping[str, _Maker] = {
    "evolutionary": lambda space, scorer, seed, first: EvolutionaryStrategy(space, scorer, seed, first),
    "random": lambda space, scorer, seed, first: RandomStrategy(space, seed, first),
    "exhaustive": lambda space, scorer, seed, first: ExhaustiveStrategy(space, first),
}
RANKED = frozenset({"evolutionary"})
"""Strategies that ask the cost model; for the others none is trained."""


def check_strategy(name: str) -> None:
    """Raise InputError, with the known names, where there is no such strategy."""
    if name not in STRATEGIES:
        msg = f"unknown strategy {name!r}; use one of {', '.join(STRATEGIES)}"
        raise InputError(msg)


def make_strategy(
    name: str, space: SearchSpace, scorer: Scorer, seed: int, first: Sequence[Candidate]
) -> SearchStrategy:
    """A strategy that proposes `first` before anything else; raises InputError on an unknown name."""
    check_strategy(name)
    return STRATEGIES[name](space, scorer, seed, first)
