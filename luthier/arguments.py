"""What callers give: checked, and as plain Python values."""

from __future__ import annotations

import math
from collections.abc import Mapping

from compiler.errors import InputError


def checked_integer(name: str, value: object, low: int, high: int = 2**63 - 1) -> int:
    """An integer within limits; raises InputError."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        msg = f"{name} is {value!r}; give an integer from {low} to {high}"
        raise InputError(msg)
    return value


def checked_number(name: str, value: object, below: float = math.inf) -> float:
    """A finite number above 0; raises InputError."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < below:
        msg = f"{name} is {value!r}; give a number above 0" + (
            "" if below == math.inf else f" and below {below:g}"
        )
        raise InputError(msg)
    return float(value)


def checked_shapes(shapes: object) -> dict[str, tuple[int, ...]]:
    """Shapes of inputs by name; raises InputError unless all sizes are integers above 0."""
    if not isinstance(shapes, Mapping):
        msg = f"shapes is {shapes!r}; give a mapping such as {{'x': (1, 128)}}"
        raise InputError(msg)
    return {
        str(name): tuple(checked_integer(f"shapes[{name!r}]", size, 1) for size in shape)
        for name, shape in shapes.items()
    }
