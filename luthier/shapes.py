"""Shapes of inputs, as text and as values."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from compiler.errors import InputError

Shapes = dict[str, tuple[int, ...]]
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
    """All of them by name; raises InputError where an input is there twice."""
    found = parse_sizes(texts)
    if not isinstance(found, dict):
        name = next(iter(found[0]))
        msg = f"input {name!r} has several shapes; only compile takes more than one size, give one here"
        raise InputError(msg)
    return found


def parse_sizes(texts: Iterable[str]) -> Shapes | list[Shapes]:
    """All of them by name; where inputs are there several times, one of each after the other.

        x=1,128 m=1,128  x=8,128 m=8,128  s=2   →   [{x: (1, 128), m: (1, 128), s: (2,)}, {x: (8, 128), m: ..., s: ...}]

    Raises InputError where some inputs are there several times, and not as often as others.
    """
    pairs = [parse_shape(text) for text in texts]
    counts = Counter(name for name, _ in pairs)
    several = {count for count in counts.values() if count > 1}
    if not several:
        return dict(pairs)
    if len(several) > 1:
        msg = f"inputs have different numbers of shapes ({dict(counts)}); give each as many, or one for all sizes"
        raise InputError(msg)
    sizes: list[dict[str, tuple[int, ...]]] = [{} for _ in range(several.pop())]
    for name, shape in pairs:
        for size in sizes if counts[name] == 1 else [next(s for s in sizes if name not in s)]:
            size[name] = shape
    return list(sizes)
