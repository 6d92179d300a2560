from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from compiler.errors import InputError
from compiler.space.space import SearchSpace
from tests.tuner import toy
from tuner.candidate import Candidate
from tuner.cost_model.protocol import Group
from tuner.cost_model.trees import XGBoostOptions
from tuner.cost_model.xgboost_model import XGBoostModel
from tuner.measure import Measured, MeasureResult
from tuner.search.evolutionary import EvolutionaryOptions, EvolutionaryStrategy
from tuner.search.exhaustive import ExhaustiveStrategy
from tuner.search.protocol import Scorer, SearchStrategy
from tuner.search.random import RandomStrategy
from tuner.search.recover import recover_assignment
from tuner.search.strategies import STRATEGIES, is_ranked, make_strategy

TASK = toy.task()


def know_nothing(candidates: object) -> None:
    return None


def oracle(candidates: list[Candidate]) -> np.ndarray:
    return np.array([-toy.seconds(TASK, c.schedule) for c in candidates])


def default(space: SearchSpace) -> Candidate:
    return Candidate(space.schedule(space.default), space.default)


def drive(strategy: SearchStrategy, rounds: int, count: int) -> list[tuple[Candidate, MeasureResult]]:
    found: list[tuple[Candidate, MeasureResult]] = []
    for _ in range(rounds):
        proposed = strategy.propose(count)
        results = [toy.simulate(TASK, c.schedule) for c in proposed]
        strategy.observe(proposed, results)
        found += zip(proposed, results, strict=True)
    return found


@pytest.mark.parametrize("name", sorted(STRATEGIES))
@pytest.mark.parametrize("scorer", [know_nothing, oracle])
def test_proposals_repeat_under_a_seed_and_never_twice(name: str, scorer: Scorer) -> None:
    space = toy.space()

    def digests(seed: int) -> list[str]:
        strategy = make_strategy(name, space, scorer, seed, [default(space)])
        return [c.digest for c, _ in drive(strategy, 5, 8)]

    first = digests(1)
    assert first == digests(1)
    assert len(set(first)) == 40
    assert first[0] == default(space).digest
    if name != "exhaustive":
        assert first != digests(2)


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_a_small_space_is_used_up(name: str) -> None:
    space = toy.space(count=3)
    strategy = make_strategy(name, space, know_nothing, 0, [])
    found = drive(strategy, 20, 16)
    assert len({c.digest for c, _ in found}) == len(found) == 81
    assert strategy.propose(1) == []


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_what_the_log_knows_is_not_proposed(name: str) -> None:
    space = toy.space(count=3)
    known = [Candidate(space.schedule(a)) for a in list(space.enumerate(100))[:60]]
    strategy = make_strategy(name, space, know_nothing, 0, [default(space)])
    strategy.observe(known, [toy.simulate(TASK, c.schedule) for c in known])
    found = drive(strategy, 10, 8)
    assert len(found) == 21
    assert not {c.digest for c, _ in found} & {c.digest for c in known}


def test_proposals_are_legal() -> None:
    space = toy.space()
    for c, _ in drive(EvolutionaryStrategy(space, oracle), 4, 16):
        assert c.assignment is not None
        assert space.is_legal(c.assignment)
        assert space.schedule(c.assignment) == c.schedule


def test_an_oracle_leads_evolution_to_the_optimum() -> None:
    found = drive(EvolutionaryStrategy(toy.space(), oracle), 4, 8)
    times = [r.median_s for _, r in found if isinstance(r, Measured)]
    assert min(times) < 1.05 * TASK.workload.operations * 1e-9


def test_uniform_samples_find_a_wrong_model_out() -> None:
    def wrong(candidates: list[Candidate]) -> np.ndarray:
        return np.array([toy.seconds(TASK, c.schedule) for c in candidates])

    space = toy.space()
    found = drive(EvolutionaryStrategy(space, wrong, seed=3), 8, 16)
    slowest = statistics.median(toy.seconds(TASK, c.schedule) for c, _ in found)
    assert any(toy.seconds(TASK, c.schedule) < 0.7 * slowest for c, _ in found)


def best_after(trials: int, make: Callable[[SearchSpace, Scorer, int], SearchStrategy], seed: int) -> float:
    # The toy has few features and nothing that predicts: trees look at all of them, and believe every sample.
    options = XGBoostOptions(rounds=100, depth=5, columns=1.0, least=2, shrink=1.0)
    model = XGBoostModel(toy.features, toy.NAMES, options)
    trained = [False]

    def score(candidates: list[Candidate]) -> np.ndarray | None:
        return model.predict(TASK, candidates) if trained[0] else None

    strategy = make(toy.space(), score, seed)
    found: list[tuple[Candidate, MeasureResult]] = []
    for _ in range(trials // 8):
        found += drive(strategy, 1, 8)
        model.fit([Group(TASK, tuple(c for c, _ in found), tuple(r for _, r in found))])
        trained[0] = True
    return min(r.median_s for _, r in found if isinstance(r, Measured))


def test_evolution_beats_random_search_at_equal_trials() -> None:
    seeds = range(15)
    evolved = [best_after(48, EvolutionaryStrategy, seed) for seed in seeds]
    random = [best_after(48, lambda space, score, seed: RandomStrategy(space, seed), seed) for seed in seeds]
    assert statistics.median(evolved) < 0.9 * statistics.median(random)


def test_half_of_a_batch_is_what_scores_best_and_half_is_spread() -> None:
    space = toy.space(count=4)
    strategy = EvolutionaryStrategy(space, oracle, options=EvolutionaryOptions(uniform_share=0.0))
    chosen = [c for c, _ in drive(strategy, 1, 8)]
    every = [Candidate(space.schedule(a), a) for a in space.enumerate(1000)]
    best = sorted(every, key=lambda c: (toy.seconds(TASK, c.schedule), c.assignment))[:4]
    assert {c.digest for c in best} <= {c.digest for c in chosen}
    for place, one in enumerate(chosen[4:], start=4):
        for other in chosen[:place]:
            assert sum(a != b for a, b in zip(one.assignment or (), other.assignment or (), strict=True)) > 1


def test_where_the_rules_begin_is_tried_first_by_those_who_know_nothing() -> None:
    plain = toy.space(count=5)
    ranked = sorted(plain.enumerate(1000), key=lambda a: toy.seconds(TASK, plain.schedule(a)))
    fastest, slowest = ranked[0], ranked[-2]  # the last is the default
    space = replace(plain, starts=(slowest, fastest))

    def tried(strategy: SearchStrategy) -> set[str]:
        return {c.digest for c, _ in drive(strategy, 1, 8)}

    begin = {space.schedule(start).digest for start in space.starts}
    assert begin <= tried(EvolutionaryStrategy(space, know_nothing, first=[default(space)]))
    assert begin <= tried(make_strategy("random", space, oracle, 0, [default(space)]))
    seeing = tried(EvolutionaryStrategy(space, oracle, first=[default(space)]))
    assert space.schedule(fastest).digest in seeing
    assert space.schedule(slowest).digest not in seeing


def test_an_exhaustive_search_finds_the_best() -> None:
    space = toy.space(count=5)
    found = drive(ExhaustiveStrategy(space), 5, 200)
    assert len(found) == 625
    fastest = min((r.median_s, c.digest) for c, r in found if isinstance(r, Measured))
    every = [space.schedule(a) for a in space.enumerate(1000)]
    assert fastest[0] == pytest.approx(min(toy.seconds(TASK, s) for s in every))


def test_the_assignment_behind_a_schedule_is_recovered() -> None:
    space = toy.space()
    for candidate, _ in drive(RandomStrategy(space), 1, 20):
        assert recover_assignment(space, candidate.schedule) == candidate.assignment
    assert recover_assignment(space, toy.space(3).schedule((0, 0, 0, 0))) == space.default


class _Entry:
    """An entry point of another package."""

    name = "backwards"

    @staticmethod
    def load() -> object:
        return lambda space, scorer, seed, first: ExhaustiveStrategy(space, first)


def test_another_package_adds_a_strategy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.search.strategies.entry_points", lambda group: [_Entry()])
    strategy = make_strategy("backwards", toy.space(), know_nothing, 0, [])
    assert isinstance(strategy, ExhaustiveStrategy)
    assert is_ranked("backwards")
    with pytest.raises(InputError, match="use one of evolutionary, random, exhaustive, backwards"):
        make_strategy("annealing", toy.space(), know_nothing, 0, [])


def test_an_unknown_strategy_is_named() -> None:
    with pytest.raises(InputError, match=r"'annealing'; use one of evolutionary, random, exhaustive"):
        make_strategy("annealing", toy.space(), know_nothing, 0, [])
