"""Index expressions in the canonical JSON form of Workloads and artifacts."""

from __future__ import annotations

from typing import Any

from compiler.index import Atom, FloorDiv, Index, LookedUp, Mod, Times


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


def _atom_json(atom: Atom) -> Any:
    if isinstance(atom, str):
        return atom
    if isinstance(atom, LookedUp):
        return ["looked up", atom.name, atom.extent]
    if isinstance(atom, Times):
        return ["times", *map(_atom_json, atom.factors)]
    divisor = atom.divisor if isinstance(atom.divisor, int) else index_json(atom.divisor)
    return ["div" if isinstance(atom, FloorDiv) else "mod", index_json(atom.value), divisor]


def _atom_from_json(data: Any) -> Atom:
    if isinstance(data, str):
        return data
    if data[0] == "times":
        return Times(tuple(map(_atom_from_json, data[1:])))
    kind, value, divisor = data
    if kind == "looked up":
        return LookedUp(str(value), int(divisor))
    inner = index_from_json(value)
    by = divisor if isinstance(divisor, int) else index_from_json(divisor)
    return FloorDiv(inner, by) if kind == "div" else Mod(inner, by)
