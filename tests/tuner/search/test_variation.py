"""What mutants and crossings have in common with their parents."""

from __future__ import annotations

import random

import pytest

from compiler.schedule.schedule import Schedule
from compiler.space.rules import build_space
from compiler.space.space import Assignment, Knob, SearchSpace
from compiler.target import native_target
from tests.compiler.workloads import KINDS
from tuner.search.variation import Variation


def space_of(*knobs: Knob, most: int = 10**9) -> SearchSpace:
    """Legal while the product of the numbers is at most `most`."""

    def legal(values: dict[str, object]) -> bool:
        product = 1
        for value in values.values():
            product *= value if isinstance(value, int) else 1
        return product <= most

    return SearchSpace(knobs, (0,) * len(knobs), legal, lambda values: Schedule(()))


NUMBERS = (1, 2, 3, 4, 6, 8, 12, 16)
FULL = space_of(Knob("rows", NUMBERS), Knob("vectors", NUMBERS), Knob("order", ("a", "b")), most=12)


def differing(one: Assignment, other: Assignment) -> list[int]:
    return [i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b]


@pytest.mark.parametrize("kind", KINDS)
def test_mutants_and_crossings_are_legal(kind: str) -> None:
    space = build_space(KINDS[kind], native_target(), 2)
    variation, rng = Variation(space), random.Random(1)
    one, other = space.default, space.sample(rng)
    for _ in range(40):
        one, other = variation.mutate(one, rng), variation.cross(one, other, rng)
        assert space.is_legal(one)
        assert space.is_legal(other)


def test_a_full_tile_is_left_by_moving_a_factor_from_one_knob_to_the_other() -> None:
    full: Assignment = (NUMBERS.index(4), NUMBERS.index(3), 0)  # 12 of 12: no number can grow alone
    variation, rng = Variation(FULL), random.Random(0)
    mutants = [variation.mutate(full, rng) for _ in range(300)]
    both = [m for m in mutants if differing(full, m) == [0, 1]]
    assert len(both) > 40
    assert {(NUMBERS[m[0]], NUMBERS[m[1]]) for m in both} >= {(6, 2), (3, 4), (2, 6)}
    assert all(len(differing(full, m)) == 1 for m in mutants if m not in both)


def test_most_changes_of_one_knob_are_to_a_neighbour() -> None:
    space = space_of(Knob("unroll", NUMBERS))
    variation, rng = Variation(space), random.Random(0)
    moves = [abs(variation.mutate((4,), rng)[0] - 4) for _ in range(200)]
    assert moves.count(1) > 100
    assert max(moves) > 1


def test_the_numbers_of_one_tile_often_come_from_one_parent() -> None:
    names = [f"{name}.{tile}" for tile in (0, 1) for name in ("rows", "vectors", "unroll")]
    space = space_of(*(Knob(name, NUMBERS) for name in names))
    variation, rng = Variation(space), random.Random(0)
    mother, father = (0,) * 6, (5,) * 6
    children = [variation.cross(mother, father, rng) for _ in range(200)]
    assert mother not in children
    assert father not in children
    whole = [child for child in children if len(set(child[:3])) == len(set(child[3:])) == 1]
    assert len(whole) > 60  # knob by knob it would be one in 31


def test_a_space_without_choices_has_no_mutants() -> None:
    space = space_of(Knob("rows", (4,)))
    assert Variation(space).mutate((0,), random.Random(0)) == (0,)
    assert Variation(space).cross((0,), (0,), random.Random(0)) == (0,)
