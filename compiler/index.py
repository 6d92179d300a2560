"""Index expressions: integers that are affine in loop variables, symbols, quotients, remainders and what was looked up.

    index   ::= const + sum(coefficient * atom)
    atom    ::= NAME | FloorDiv(index, divisor) | Mod(index, divisor) | LookedUp(NAME, extent) | Times(atoms)
    divisor ::= a positive integer, or an index over symbols that is positive

A NAME is an axis, a loop or a shape symbol; that of a LookedUp belongs to the Lookup around it (compiler.scalar). Times
is a product of atoms, as of a loop and of the symbols that its stride depends on.
Values are immutable and in canonical form (terms sorted, no zero coefficient), so that equal expressions compare and
hash equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import gcd
from typing import Any, Union


@dataclass(frozen=True, slots=True)
class FloorDiv:
    """`value // divisor`, with a positive divisor."""

    value: Index
    divisor: Divisor


@dataclass(frozen=True, slots=True)
class Mod:
    """`value % divisor`, with a positive divisor; never negative."""

    value: Index
    divisor: Divisor


@dataclass(frozen=True, slots=True)
class LookedUp:
    """An integer in 0 .. extent - 1 that is only known at run time: what the Lookup of this name has read."""

    name: str
    extent: Divisor

    @property
    def size(self) -> int:
        """The extent of what has no symbols left in it."""
        assert isinstance(self.extent, int), self.extent
        return self.extent

    def at(self, bindings: Mapping[str, Index]) -> LookedUp:
        """The same with names in its extent replaced."""
        extent = Index.of(self.extent).substitute(bindings)
        return LookedUp(self.name, extent if extent.constant is None else extent.const)


@dataclass(frozen=True, slots=True)
class Times:
    """The product of two atoms or more, in canonical order, none of them a product and none negative."""

    factors: tuple[Atom, ...]


Atom = Union[str, FloorDiv, Mod, LookedUp, Times]
Divisor = Union[int, "Index"]
Ranges = Mapping[str, int]
"""Extent of each name: it runs over 0 .. extent - 1."""


@dataclass(frozen=True, slots=True)
class Index:
    """`const + sum(coefficient * atom)`; build with `Index.of`, `+`, `-` and `*`."""

    terms: tuple[tuple[Atom, int], ...] = ()
    const: int = 0

    @staticmethod
    def of(value: Index | Atom | int) -> Index:
        """Wrap a name, an atom or an integer."""
        if isinstance(value, Index):
            return value
        if isinstance(value, int):
            return Index((), value)
        return _plain(value) if isinstance(value, str) else Index(((value, 1),), 0)

    @staticmethod
    def sum(terms: Iterable[tuple[Atom, int]], const: int = 0) -> Index:
        """Collect terms into canonical form."""
        total: dict[Atom, int] = {}
        for atom, coefficient in terms:
            total[atom] = total.get(atom, 0) + coefficient
        kept = [(a, c) for a, c in total.items() if c]
        if len(kept) > 1:
            kept.sort(key=_place)
        return Index(tuple(kept), const)

    def __add__(self, other: Index | Atom | int) -> Index:
        other = Index.of(other)
        if not other.terms:
            return Index(self.terms, self.const + other.const)
        if not self.terms:
            return Index(other.terms, self.const + other.const)
        return Index.sum((*self.terms, *other.terms), self.const + other.const)

    def __sub__(self, other: Index | Atom | int) -> Index:
        return self + Index.of(other) * -1

    def __mul__(self, factor: int) -> Index:
        if factor == 0:
            return ZERO
        return Index(tuple([(a, c * factor) for a, c in self.terms]), self.const * factor)

    def times(self, other: Index) -> Index:
        """The product of two expressions, both of atoms that are never negative."""
        if other.constant is not None:
            return self * other.const
        if self.constant is not None:
            return other * self.const
        terms = [(_times(a, b), c * d) for a, c in self.terms for b, d in other.terms]
        mixed = [
            *((a, c * other.const) for a, c in self.terms),
            *((b, d * self.const) for b, d in other.terms),
        ]
        return Index.sum([*terms, *mixed], self.const * other.const)

    def __floordiv__(self, divisor: Divisor) -> Index:
        """Exact where every coefficient divides; an atom otherwise."""
        if isinstance(divisor, Index):
            return Index.of(FloorDiv(self, divisor)) if divisor.constant is None else self // divisor.const
        if divisor == 1:
            return self
        if not self.terms:
            return Index((), self.const // divisor)
        if all(c % divisor == 0 for _, c in self.terms):
            return Index(tuple((a, c // divisor) for a, c in self.terms), self.const // divisor)
        return Index.of(FloorDiv(self, divisor))

    def __mod__(self, divisor: Divisor) -> Index:
        """Terms whose coefficient the divisor divides vanish; the rest is an atom."""
        if isinstance(divisor, Index):
            return Index.of(Mod(self, divisor)) if divisor.constant is None else self % divisor.const
        if divisor == 1:
            return ZERO
        rest = Index(tuple((a, c) for a, c in self.terms if c % divisor), self.const % divisor)
        return rest if not rest.terms else Index.of(Mod(rest, divisor))

    @property
    def constant(self) -> int | None:
        """The value, where no atom is left."""
        return self.const if not self.terms else None

    @property
    def name(self) -> str | None:
        """The name, where the whole expression is just that."""
        if self.const == 0 and len(self.terms) == 1 and self.terms[0][1] == 1:
            atom = self.terms[0][0]
            return atom if isinstance(atom, str) else None
        return None

    def coefficient(self, name: str) -> int:
        """Factor of a name among the plain terms (quotients, remainders and products are not looked into)."""
        return next((c for a, c in self.terms if a == name), 0)

    def names(self) -> frozenset[str]:
        """All axes, loops and symbols in it, also inside quotients and remainders; not what was looked up."""
        found: set[str] = set()
        for atom, _ in self.terms:
            if isinstance(atom, str):
                found.add(atom)
            else:
                for part in _parts(atom):
                    found |= part.names()
        return frozenset(found)

    def looked_up(self) -> frozenset[LookedUp]:
        """All that was looked up, also inside quotients and remainders."""
        seen: set[LookedUp] = set()
        for atom, _ in self.terms:
            if isinstance(atom, LookedUp):
                seen.add(atom)
            elif not isinstance(atom, str):
                for part in _parts(atom):
                    seen |= part.looked_up()
        return frozenset(seen)

    def is_affine(self) -> bool:
        """Whether it has neither quotient nor remainder, no product, nor anything that was looked up."""
        return all(isinstance(a, str) for a, _ in self.terms)

    def is_linear(self) -> bool:
        """Whether it has neither quotient nor remainder, nor a product."""
        return all(isinstance(a, str | LookedUp) for a, _ in self.terms)

    def substitute(self, bindings: Mapping[str, Index]) -> Index:
        """Replace names, those of lookups too; the same object comes back when none of them occurs."""
        for atom, _ in self.terms:
            if not isinstance(atom, str) or atom in bindings:
                break
        else:
            return self
        terms: list[tuple[Atom, int]] = []
        const = self.const
        for atom, coefficient in self.terms:
            if isinstance(atom, str):
                new = bindings.get(atom)
            elif isinstance(atom, LookedUp):
                new = bindings.get(atom.name)
                if new is None and isinstance(atom.extent, Index):
                    new = Index.of(atom.at(bindings))
            elif isinstance(atom, Times):
                new = product_of(Index.of(factor).substitute(bindings) for factor in atom.factors)
            elif isinstance(atom, FloorDiv):
                new = atom.value.substitute(bindings) // _at(atom.divisor, bindings)
            else:
                new = atom.value.substitute(bindings) % _at(atom.divisor, bindings)
            if new is None:
                terms.append((atom, coefficient))
            else:
                terms += [(a, c * coefficient) for a, c in new.terms]
                const += new.const * coefficient
        return Index.sum(terms, const)

    def bounds(self, ranges: Ranges) -> tuple[int, int]:
        """Smallest and largest value (both included) while each name runs over its range."""
        low = high = self.const
        for atom, coefficient in self.terms:
            a, b = _atom_bounds(atom, ranges)
            low += coefficient * (a if coefficient > 0 else b)
            high += coefficient * (b if coefficient > 0 else a)
        return low, high

    def simplify(self, ranges: Ranges) -> Index:
        """Drop quotients and remainders that the ranges make trivial, and names that can only be 0."""
        for atom, _ in self.terms:
            if not isinstance(atom, str) or ranges.get(atom) == 1:
                break
        else:
            return self
        total = Index((), self.const)
        for atom, coefficient in self.terms:
            total += _simplify_atom(atom, ranges) * coefficient
        return self if total == self else total

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """The number for given integers, or an array for given integer arrays."""
        total: Any = self.const
        for atom, coefficient in self.terms:
            total = total + coefficient * _evaluated(atom, values)
        return total

    def __str__(self) -> str:
        parts = []
        for atom, coefficient in self.terms:
            text = _atom_text(atom)
            sign = "-" if coefficient < 0 else "+"
            factor = abs(coefficient)
            parts.append((sign, text if factor == 1 else f"{text}*{factor}"))
        if self.const or not parts:
            parts.append(("-" if self.const < 0 else "+", str(abs(self.const))))
        first_sign, first = parts[0]
        head = f"-{first}" if first_sign == "-" else first
        return head + "".join(f" {sign} {text}" for sign, text in parts[1:])


ZERO = Index()


@lru_cache(maxsize=4096)
def _plain(name: str) -> Index:
    return Index(((name, 1),), 0)


def product_of(factors: Iterable[Index]) -> Index:
    """The product of expressions; 1 where there is none."""
    total = Index((), 1)
    for factor in factors:
        total = total.times(factor)
    return total


def _times(a: Atom, b: Atom) -> Atom:
    factors = [f for atom in (a, b) for f in (atom.factors if isinstance(atom, Times) else (atom,))]
    return Times(tuple(sorted(factors, key=lambda factor: _place((factor, 1)))))


def _parts(atom: FloorDiv | Mod | LookedUp | Times) -> tuple[Index, ...]:
    """What an atom is made of; what was looked up has no names but those in its extent."""
    if isinstance(atom, LookedUp):
        return (atom.extent,) if isinstance(atom.extent, Index) else ()
    if isinstance(atom, Times):
        return tuple(Index.of(factor) for factor in atom.factors)
    return (atom.value,) if isinstance(atom.divisor, int) else (atom.value, atom.divisor)


def _at(divisor: Divisor, bindings: Mapping[str, Index]) -> Divisor:
    return divisor if isinstance(divisor, int) else divisor.substitute(bindings)


def _evaluated(atom: Atom, values: Mapping[str, Any]) -> Any:
    if isinstance(atom, str | LookedUp):
        return values[atom if isinstance(atom, str) else atom.name]
    if isinstance(atom, Times):
        total: Any = 1
        for factor in atom.factors:
            total = total * _evaluated(factor, values)
        return total
    divisor = atom.divisor if isinstance(atom.divisor, int) else atom.divisor.evaluate(values)
    value = atom.value.evaluate(values)
    return value // divisor if isinstance(atom, FloorDiv) else value % divisor


def _atom_text(atom: Atom) -> str:
    if isinstance(atom, str):
        return atom
    if isinstance(atom, LookedUp):
        return atom.name
    if isinstance(atom, Times):
        return "*".join(f if isinstance(f, str) else f"({_atom_text(f)})" for f in atom.factors)
    divisor = atom.divisor if isinstance(atom.divisor, int) else f"({atom.divisor})"
    return f"({atom.value}) {'//' if isinstance(atom, FloorDiv) else '%'} {divisor}"


def _place(term: tuple[Atom, int]) -> tuple[int, str]:
    atom = term[0]
    return (0, atom) if isinstance(atom, str) else (1, _atom_text(atom))


def _atom_bounds(atom: Atom, ranges: Ranges) -> tuple[int, int]:
    if isinstance(atom, str):
        return 0, ranges[atom] - 1
    if isinstance(atom, LookedUp):
        return 0, (atom.extent if isinstance(atom.extent, int) else atom.extent.bounds(ranges)[1]) - 1
    if isinstance(atom, Times):
        return _product_bounds(atom, ranges)
    low, high = atom.value.bounds(ranges)
    if isinstance(atom.divisor, Index):
        # At least 1, whatever its symbols are.
        most = atom.divisor.bounds(ranges)[1]
        return (min(low, 0), max(high, 0)) if isinstance(atom, FloorDiv) else (0, most - 1)
    if isinstance(atom, FloorDiv):
        return low // atom.divisor, high // atom.divisor
    if low // atom.divisor == high // atom.divisor:
        return low % atom.divisor, high % atom.divisor
    return 0, atom.divisor - 1


def _product_bounds(atom: Times, ranges: Ranges) -> tuple[int, int]:
    low, high = 1, 1
    for factor in atom.factors:
        a, b = _atom_bounds(factor, ranges)
        ends = (low * a, low * b, high * a, high * b)
        low, high = min(ends), max(ends)
    return low, high


def _simplify_atom(atom: Atom, ranges: Ranges) -> Index:
    if isinstance(atom, str):
        return ZERO if ranges.get(atom) == 1 else Index.of(atom)
    if isinstance(atom, LookedUp):
        return ZERO if atom.extent == 1 else Index.of(atom)
    if isinstance(atom, Times):
        return product_of(_simplify_atom(factor, ranges) for factor in atom.factors)
    value = atom.value.simplify(ranges)
    if isinstance(atom.divisor, Index):
        return value // atom.divisor if isinstance(atom, FloorDiv) else value % atom.divisor
    if not value.names() <= ranges.keys():
        return value // atom.divisor if isinstance(atom, FloorDiv) else value % atom.divisor
    low, high = value.bounds(ranges)
    quotient = low // atom.divisor
    if quotient == high // atom.divisor:
        return Index.of(quotient) if isinstance(atom, FloorDiv) else value - quotient * atom.divisor
    if isinstance(atom, FloorDiv):
        whole, rest = _split_multiples(value, atom.divisor)
        if whole.terms and rest.bounds(ranges)[0] >= 0:
            return whole // atom.divisor + _simplify_atom(FloorDiv(rest, atom.divisor), ranges)
    return _simplify_digits(value, atom, atom.divisor, ranges)


def _split_multiples(value: Index, divisor: int) -> tuple[Index, Index]:
    whole = Index(tuple((a, c) for a, c in value.terms if c % divisor == 0))
    return whole, value - whole


def _simplify_digits(value: Index, atom: FloorDiv | Mod, divisor: int, ranges: Ranges) -> Index:
    """A quotient or remainder of digits, of which the lower ones do not reach the divisor.

    (c*3136 + i) // 6272 is c // 2 while i runs below 3136, and the remainder is (c % 2)*3136 + i: what reads a reshaped
    value takes its digits apart so.
    """
    for step in sorted({gcd(c, divisor) for _, c in value.terms} - {1}, reverse=True):
        high = Index(tuple((a, c) for a, c in value.terms if c % step == 0), value.const // step * step)
        low = value - high
        least, most = low.bounds(ranges)
        if least < 0 or most >= step:
            continue
        digits, base = high // step, divisor // step
        if isinstance(atom, FloorDiv):
            return digits if base == 1 else _simplify_atom(FloorDiv(digits, base), ranges)
        return low if base == 1 else _simplify_atom(Mod(digits, base), ranges) * step + low
    return value // divisor if isinstance(atom, FloorDiv) else value % divisor
