"""Generalise: from the same thing made for several sizes to one over symbols (anti-unification).

    x0[8, 64], s0 < 8*49  and  x0[9, 64], s0 < 9*49   →   x0[n, 64], s0 < n*49

All that stands in front of schedules (shape inference, folding, layouts, fusion, canonical form) works with numbers. It
is run for several values of the symbols; what comes out must have one structure, and every number in it that differs
must be a polynomial of few terms in the symbols: fitted on some of the values, checked on the others, refused where it
is anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, combinations_with_replacement
from typing import Any

import numpy as np

from compiler.index import Atom, FloorDiv, Index, LookedUp, Mod, product_of
from compiler.scalar import FAR, Bound, Guard
from compiler.symbol import Symbol

Values = Mapping[str, int]

_BASE = 8
FAR_APART = 32
"""A value from which on half of it is in another block and has another number of digits."""
_DEGREE = 3
"""Of a batch, and two lengths."""
_MOST_TERMS = 3


class DiffersError(ValueError):
    """The instances have no common form; says where."""


def sample_values(symbols: Sequence[Symbol]) -> tuple[Values, ...]:
    """Values to make instances for: a base, one more of each symbol, and some far apart, all together.

    1 is left out where the range has others: an axis of extent 1 disappears. They are small, for many a model takes no
    large ones, and differ from symbol to symbol.
    """
    low = {s.name: max(s.low, 2) for s in symbols}
    base = {s.name: max(low[s.name], _BASE + 3 * place) for place, s in enumerate(symbols)}
    points = [base]
    points += [{**base, s.name: base[s.name] + 1} for s in symbols]
    points.append({s.name: low[s.name] + 1 + place for place, s in enumerate(symbols)})
    points.append({s.name: 2 * base[s.name] + 5 + 6 * place for place, s in enumerate(symbols)})
    points.append({s.name: 4 * base[s.name] + 3 + 4 * place for place, s in enumerate(symbols)})
    within = [{s.name: min(s.high, point[s.name]) for s in symbols} for point in points]
    return tuple(point for place, point in enumerate(within) if point not in within[:place])


def values_up_to(symbols: Sequence[Symbol]) -> tuple[Values, ...]:
    """The same where the nominal values are known to occur: none larger, for those may be out of range, and some near.

    What is decided by sizes (what is worth a copy) is decided alike for all of them, or there is no common form. The
    smallest are half as large, so that numbers of blocks, and of steps of a search, differ. Where that is too near,
    they are those of `sample_values`.
    """
    if any(s.nominal < FAR_APART for s in symbols):
        return sample_values(symbols)
    base = {s.name: s.nominal for s in symbols}
    points = [base, *({**base, s.name: s.nominal - 1} for s in symbols)]
    points += [
        {s.name: s.nominal * share // 8 - place for place, s in enumerate(symbols)} for share in (7, 6, 5, 4)
    ]
    return tuple(point for place, point in enumerate(points) if point not in points[:place])


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


def polynomial(numbers: Sequence[int], points: Sequence[Values], where: str) -> Index:
    """The expression of few terms that has these values at these points; raises DiffersError where there is none."""
    names = tuple(points[0])
    found = _polynomial(
        tuple(numbers), names, tuple(tuple(point[name] for name in names) for point in points)
    )
    if found is None:
        places = [tuple(p.values()) for p in points]
        msg = f"{where} is {list(numbers)} for {places}, no polynomial of few terms in {', '.join(names)}"
        raise DiffersError(msg)
    return found


@lru_cache(maxsize=4096)
def _polynomial(
    numbers: tuple[int, ...], names: tuple[str, ...], points: tuple[tuple[int, ...], ...]
) -> Index | None:
    """Of the lowest degree that fits, the one with fewest terms."""
    for degree in range(_DEGREE + 1):
        monomials = [
            m for d in range(degree + 1) for m in combinations_with_replacement(range(len(names)), d)
        ]
        # Affine ones may have all of their terms: a fit of them is determined by neighbouring points.
        most = len(names) + 1 if degree < 2 else _MOST_TERMS
        for count in range(1, min(most, len(points)) + 1):
            for chosen in combinations(monomials, count):
                factors = _fitted(numbers, chosen, points)
                if factors is not None:
                    terms = (product_of(Index.of(names[i]) for i in m) for m in chosen)
                    return sum((term * f for term, f in zip(terms, factors, strict=True)), Index())
    return None


def _fitted(
    numbers: tuple[int, ...], monomials: tuple[tuple[int, ...], ...], points: tuple[tuple[int, ...], ...]
) -> tuple[int, ...] | None:
    """Whole coefficients with which the monomials give the numbers at all points; None where there are none."""
    rows = [[*_at(point, monomials), Fraction(n)] for point, n in zip(points, numbers, strict=True)]
    for column in range(len(monomials)):
        pivot = next((r for r in range(column, len(rows)) if rows[r][column]), None)
        if pivot is None:
            return None
        rows[column], rows[pivot] = rows[pivot], rows[column]
        first = rows[column][column]
        rows[column] = [value / first for value in rows[column]]
        for r, row in enumerate(rows):
            if r != column and row[column]:
                rows[r] = [a - row[column] * b for a, b in zip(row, rows[column], strict=True)]
    found = [row[-1] for row in rows]
    if any(found[len(monomials) :]) or any(f.denominator != 1 for f in found):
        return None
    return tuple(int(f) for f in found[: len(monomials)])


def _at(point: tuple[int, ...], monomials: tuple[tuple[int, ...], ...]) -> list[Fraction]:
    values = []
    for monomial in monomials:
        value = 1
        for place in monomial:
            value *= point[place]
        values.append(Fraction(value))
    return values


def _index(instances: Sequence[Index], points: Sequence[Values], where: str) -> Index:
    first = instances[0]
    if all(other == first for other in instances):
        return first
    if any(len(other.terms) != len(first.terms) for other in instances):
        msg = f"{where} is {first} for one size and {next(o for o in instances if o != first)} for another"
        raise DiffersError(msg)
    total = polynomial([other.const for other in instances], points, where)
    for terms in zip(*(other.terms for other in instances), strict=True):
        atom = _atom([a for a, _ in terms], points, where)
        total += polynomial([c for _, c in terms], points, where).times(atom)
    return total


def _atom(instances: Sequence[Atom], points: Sequence[Values], where: str) -> Index:
    first = instances[0]
    if all(other == first for other in instances):
        return Index.of(first)
    if isinstance(first, LookedUp) and all(isinstance(other, LookedUp) for other in instances):
        return Index.of(_looked_up([o for o in instances if isinstance(o, LookedUp)], points, where))
    if not isinstance(first, FloorDiv | Mod) or any(type(other) is not type(first) for other in instances):
        msg = f"{where} has {first} for one size and {next(o for o in instances if o != first)} for another"
        raise DiffersError(msg)
    quotients = [other for other in instances if isinstance(other, FloorDiv | Mod)]
    value = _index([q.value for q in quotients], points, where)
    divisor = _index([Index.of(q.divisor) for q in quotients], points, where)
    return value // divisor if isinstance(first, FloorDiv) else value % divisor


def _looked_up(instances: Sequence[LookedUp], points: Sequence[Values], where: str) -> LookedUp:
    first = instances[0]
    if any(other.name != first.name for other in instances):
        msg = f"{where} is looked up elsewhere"
        raise DiffersError(msg)
    extent = _index([Index.of(other.extent) for other in instances], points, where)
    return first if extent.constant is not None else LookedUp(first.name, extent)


def _guard(instances: Sequence[Guard], points: Sequence[Values], where: str) -> Guard:
    """Tests against a number that differs compare with an expression: one test of each end that does."""
    first = instances[0]
    if len({len(other.bounds) for other in instances}) > 1:
        msg = f"{where} has {sorted({len(other.bounds) for other in instances})} tests"
        raise DiffersError(msg)
    bounds: list[Bound] = []
    for place, tests in enumerate(zip(*(other.bounds for other in instances), strict=True)):
        bounds += _tests(tests, points, f"{where}.bounds[{place}]")
    inside = generalise([other.inside for other in instances], points, f"{where}.inside")
    outside = generalise([other.outside for other in instances], points, f"{where}.outside")
    common = Guard(tuple(bounds), inside, outside)
    return first if common == first else common


def _tests(tests: Sequence[Bound], points: Sequence[Values], where: str) -> tuple[Bound, ...]:
    index = _index([test.index for test in tests], points, f"{where}.index")
    lows, highs = [test.low for test in tests], [test.high for test in tests]
    if len(set(lows)) == len(set(highs)) == 1:
        return (Bound(index, lows[0], highs[0]),)
    low = polynomial(lows, points, f"{where}.low")
    upper = Bound(index - polynomial(highs, points, f"{where}.high"), -FAR, 0)
    # An axis is never negative.
    return (upper,) if low == Index() and index.name is not None else (Bound(low - index, -FAR, 1), upper)


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
    (LookedUp, _looked_up),
    (Guard, _guard),
    (tuple, _tuple),
    (Mapping, _mapping),
    (np.ndarray, _array),
)
