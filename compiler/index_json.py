"""Index expressions in the canonical JSON form of Workloads and artifacts."""

from __future__ import annotations

from typing import Any

from compiler.index import Atom, Divisor, FloorDiv, Index, LookedUp, Mod, Times


def index_json(index: Index) -> Any:
    """Canonical JSON form: an integer, or [const, [atom, coefficient], ...]."""
    if not index.terms:
        return index.const
    return [index.const, *([_atom_json(a), c] for a, c in index.terms)]


def index_from_json(data: Any) -> Index:
    """Inverse of `index_json`; raises ValueError on any other shape."""
    if isinstance(data, int):
        return Index((), data)
    if not isinstance(data, list) or not data or not isinstance(data[0], int):
        msg = f"not an index expression: {data!r}"
        raise ValueError(msg)
    return Index.sum(((_atom_from_json(a), int(c)) for a, c in data[1:]), data[0])


def divisor_json(divisor: Divisor) -> Any:
    """Of a number, or of an expression."""
    return divisor if isinstance(divisor, int) else index_json(divisor)


def divisor_from_json(data: Any) -> Divisor:
    """Inverse of `divisor_json`; raises ValueError on any other shape."""
    return data if isinstance(data, int) else index_from_json(data)


def _atom_json(atom: Atom) -> Any:
    if isinstance(atom, str):
        return atom
    if isinstance(atom, LookedUp):
        return ["looked up", atom.name, divisor_json(atom.extent)]
    if isinstance(atom, Times):
        return ["times", *map(_atom_json, atom.factors)]
    kind = "div" if isinstance(atom, FloorDiv) else "mod"
    return [kind, index_json(atom.value), divisor_json(atom.divisor)]


def _atom_from_json(data: Any) -> Atom:
    if isinstance(data, str):
        return data
    if data[0] == "times":
        return Times(tuple(map(_atom_from_json, data[1:])))
    kind, value, divisor = data
    if kind == "looked up":
        return LookedUp(str(value), divisor_from_json(divisor))
    inner, by = index_from_json(value), divisor_from_json(divisor)
    return FloorDiv(inner, by) if kind == "div" else Mod(inner, by)
