"""JSON that comes from outside or goes into the database: strict, bounded, canonical where a digest depends on it."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, NoReturn

MAX_DEPTH = 200
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)


def dump(value: Any) -> str:
    """Canonical text: sorted keys, no spaces, no NaN."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True, allow_nan=False)


def digest(value: Any) -> str:
    """64 hexadecimal digits over the canonical text."""
    return hashlib.sha256(dump(value).encode()).hexdigest()


def parse(text: str, max_depth: int = MAX_DEPTH) -> Any:
    """The value of a JSON text; raises ValueError on anything else, on NaN, and on deeper nesting."""
    if depth(text) > max_depth:
        msg = f"JSON is nested more than {max_depth} deep"
        raise ValueError(msg)
    return json.loads(text, parse_constant=_refuse_constant)


def depth(text: str) -> int:
    """Largest number of brackets open at once, without parsing (a hostile text can exhaust a parser's stack)."""
    level = deepest = 0
    for char in re.findall(r"[\[{\]}]", _STRING.sub("", text)):
        level += 1 if char in "[{" else -1
        deepest = max(deepest, level)
    return deepest


def _refuse_constant(name: str) -> NoReturn:
    msg = f"{name} is not JSON"
    raise ValueError(msg)
