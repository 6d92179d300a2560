from __future__ import annotations

import pytest

from workers.cores import _numbers, split

SIBLINGS = [frozenset({n, n + 4}) for n in range(4)]
"""Four cores of two hardware threads, numbered as Linux does."""


def test_a_team_has_whole_cores_and_others_are_built_on() -> None:
    cores = split(SIBLINGS, 2)
    assert cores is not None
    assert cores.timing == {2, 3}
    assert cores.building == {0, 1, 4, 5}


@pytest.mark.parametrize("threads", [0, 4, 5])
def test_no_core_is_shared(threads: int) -> None:
    assert split(SIBLINGS, threads) is None


def test_two_hardware_threads_of_one_core_are_not_apart() -> None:
    assert split([frozenset({0, 1})], 1) is None


@pytest.mark.parametrize(("text", "numbers"), [("3\n", {3}), ("0-1\n", {0, 1}), ("0,64-65", {0, 64, 65})])
def test_lists_of_the_kernel(text: str, numbers: set[int]) -> None:
    assert _numbers(text) == numbers
