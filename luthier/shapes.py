"""Shapes of inputs, as text and as values."""

from __future__ import annotations

import re
from collections.abc import Iterable

_SHAPE = re.compile(r"(?P<name>.+)=(?P<sizes>\d{1,9}(,\d{1,9})*)")


def parse_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """`x=1,128` gives ("x", (1, 128)); raises ValueError on anything else."""
    match = _SHAPE.fullmatch(text)
    sizes = tuple(int(size) for size in match["sizes"].split(",")) if match else ()
    if match is None or 0 in sizes:
        message = f"{text!r} is not of the form NAME=1,128 with sizes above 0"
        raise ValueError(message)
    return match["name"], sizes


def parse_shapes(texts: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """All of them by name; the last one of a name counts. Raises ValueError."""
    return dict(parse_shape(text) for text in texts)
