"""Which cases of a parametrized test the default run leaves to the slow suite (`-m slow`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def slow(*values: Any) -> Any:
    """A case of the slow suite."""
    return pytest.param(*values, marks=pytest.mark.slow)


def every(number: int, cases: Iterable[Any]) -> list[Any]:
    """The first of each so many cases, by default; the others are slow ones."""
    return [case if place % number == 0 else slow(case) for place, case in enumerate(cases)]


THREADS = (slow(1), 2)
"""Of what differs little from one thread to two: the shares of two have all that one has, and more ends."""
