"""Generalise: from the same thing made for several sizes to one over symbols (anti-unification).

    x0[8, 64], s0 < 8*49  and  x0[9, 64], s0 < 9*49   →   x0[n, 64], s0 < n*49

All that stands in front of schedules (shape inference, folding, layouts, fusion, canonical form) works with numbers. It
is run for several values of the symbols; what comes out must have one structure, and every number in it that differs
must be affine in the symbols: fitted on some of the values, checked on the others, refused where it is anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from compiler.index import Index
from compiler.symbol import Symbol

Values = Mapping[str, int]


class DiffersError(ValueError):
    """The instances have no common form; says where."""


def sample_values(symbols: Sequence[Symbol]) -> tuple[Values, ...]:
    """Values to make instances for: a base, one more of each symbol, and some far apart, all together.

    1 is left out where the range has others: an axis of extent 1 disappears.
    """
    low = {s.name: max(s.low, 2) for s in symbols}
    base = {s.name: max(low[s.name], s.nominal) for s in symbols}
    points = [base]
    points += [{**base, s.name: base[s.name] + 1} for s in symbols]
    points.append({s.name: low[s.name] + 1 + place for place, s in enumerate(symbols)})
    points.append({s.name: 2 * base[s.name] + 5 + 6 * place for place, s in enumerate(symbols)})
    points.append({s.name: 7 * base[s.name] + 3 + 4 * place for place, s in enumerate(symbols)})
    within = [{s.name: min(s.high, point[s.name]) for s in symbols} for point in points]
    return tuple(point for place, point in enumerate(within) if point not in within[:place])


def generalise(instances: Sequence[Any], points: Sequence[Values], where: str = "") -> Any:
    """The common form of instances of frozen dataclasses, tuples and mappings; raises DiffersError where there is none.

    Args:
        instances: one per point, the first for the base of `sample_values`.
        points: values of the symbols.
        where: for messages.
    """
    first = instances[0]
    if any(type(other) is not type(first) for other in instances):
        msg = f"{where} is of another kind"
        raise DiffersError(msg)
    for kind, rule in _RULES:
        if isinstance(first, kind):
            return rule(instances, points, where)
    if is_dataclass(first):
        return _record(instances, points, where)
    if any(other != first for other in instances):
        msg = (
            f"{where} is {first!r} for one size and {next(o for o in instances if o != first)!r} for another"
        )
        raise DiffersError(msg)
    return first


def affine(numbers: Sequence[int], points: Sequence[Values], where: str) -> Index:
    """The affine expression that has these values at these points; raises DiffersError where there is none."""
    base = points[0]
    found = Index.of(numbers[0])
    for name in base:
        step = next((i for i, p in enumerate(points) if _moved(base, p) == {name}), None)
        if step is not None:
            slope, rest = divmod(numbers[step] - numbers[0], points[step][name] - base[name])
            found += (Index.of(name) - base[name]) * slope if not rest else 0
    if any(found.evaluate(point) != number for number, point in zip(numbers, points, strict=True)):
        names = ", ".join(base)
        msg = f"{where} is {list(numbers)} for {[tuple(p.values()) for p in points]}, not affine in {names}"
        raise DiffersError(msg)
    return found


def _moved(base: Values, point: Values) -> set[str]:
    return {name for name in base if point[name] != base[name]}


def _index(instances: Sequence[Index], points: Sequence[Values], where: str) -> Index:
    first = instances[0]
    if any(other.terms != first.terms for other in instances):
        msg = f"{where} is {first} for one size and {next(o for o in instances if o != first)} for another"
        raise DiffersError(msg)
    if all(other.const == first.const for other in instances):
        return first
    return Index(first.terms) + affine([other.const for other in instances], points, where)


def _record(instances: Sequence[Any], points: Sequence[Values], where: str) -> Any:
    first = instances[0]
    changes = {}
    for item in fields(first):
        values = [getattr(other, item.name) for other in instances]
        common = generalise(values, points, f"{where}.{item.name}" if where else item.name)
        if common is not values[0]:
            changes[item.name] = common
    return replace(first, **changes) if changes else first


def _tuple(instances: Sequence[tuple[Any, ...]], points: Sequence[Values], where: str) -> tuple[Any, ...]:
    if len({len(other) for other in instances}) > 1:
        msg = f"{where} has {sorted({len(other) for other in instances})} parts"
        raise DiffersError(msg)
    common = tuple(
        generalise(parts, points, f"{where}[{place}]")
        for place, parts in enumerate(zip(*instances, strict=True))
    )
    first = instances[0]
    return first if all(a is b for a, b in zip(common, first, strict=True)) else common


def _mapping(
    instances: Sequence[Mapping[Any, Any]], points: Sequence[Values], where: str
) -> Mapping[Any, Any]:
    first = instances[0]
    if any(list(other) != list(first) for other in instances):
        msg = f"{where} has other names"
        raise DiffersError(msg)
    common = {
        key: generalise([other[key] for other in instances], points, f"{where}[{key!r}]") for key in first
    }
    return first if all(common[key] is first[key] for key in first) else common


def _array(instances: Sequence[Any], _points: Sequence[Values], where: str) -> Any:
    first = instances[0]
    if not all(same_array(other, first) for other in instances):
        msg = f"the constant {where} depends on the size"
        raise DiffersError(msg)
    return first


def same_array(a: Any, b: Any) -> bool:
    """Whether two arrays have one type, shape and content, bit for bit."""
    if a is b:
        return True
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    left, right = (np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in (a, b))
    return bool(np.array_equal(left, right))


_RULES: tuple[tuple[type, Callable[[Sequence[Any], Sequence[Values], str], Any]], ...] = (
    (Index, _index),
    (tuple, _tuple),
    (Mapping, _mapping),
    (np.ndarray, _array),
)
