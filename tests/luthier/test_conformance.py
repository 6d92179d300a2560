"""The official ONNX cases: each passes, or is on the list of those that are refused, and is refused."""

from __future__ import annotations

import pytest

from tests.luthier.conformance import official_cases, outcome, refused_cases

MOST_REFUSED = 80
"""Cases on the list; a smaller number takes its place whenever the list shrinks."""
SHARE = 40
"""Of so many cases one is run by default, so that every operator with a few of them is."""


def check(names: list[str]) -> None:
    refused, cases = refused_cases(), official_cases()
    results = {name: outcome(cases[name]) for name in names}
    assert {n: r for n, r in results.items() if r == "wrong"} == {}
    assert {n: r for n, r in results.items() if r != "passed" and n not in refused} == {}
    assert [n for n, r in results.items() if r == "passed" and n in refused] == [], "take them off the list"


def test_a_share_of_the_official_cases() -> None:
    check(sorted(official_cases())[::SHARE])


@pytest.mark.slow
def test_all_official_cases() -> None:
    check(sorted(official_cases()))


def test_the_list_only_shrinks() -> None:
    refused = refused_cases()
    assert len(refused) <= MOST_REFUSED
    assert refused.keys() <= official_cases().keys()
    assert all(refused.values())
