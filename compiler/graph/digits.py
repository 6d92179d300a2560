"""Digits: a quotient and the remainder that belongs to it, put together again.

i // 4 * 4 + i % 4   →   i
"""

from __future__ import annotations

from compiler.index import FloorDiv, Index, Mod


def with_digits_joined(index: Index) -> Index:
    """The index, without remainders whose quotients are in it with the right factor; the same object where none is."""
    factors = dict(index.terms)
    for atom, factor in index.terms:
        if not isinstance(atom, Mod) or not isinstance(atom.divisor, int):
            continue
        quotient = FloorDiv(atom.value, atom.divisor)
        if factors.get(quotient) == factor * atom.divisor:
            rest = index - Index(((atom, factor),)) - Index(((quotient, factor * atom.divisor),))
            return with_digits_joined(rest + atom.value * factor)
    return index
