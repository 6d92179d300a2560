"""Einsum: a sum of products over named indices.

    bij,bjk->bik   y[b, i, k] = sum over j of x[b, i, j] * w[b, j, k]

More than two operands are multiplied two at a time, from the left; each index is summed as soon as no later operand and
no output has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compiler.frontend.call import Lowering, OperatorCall
from compiler.frontend.computes import ReduceAxes, at, output_axes, reduced
from compiler.graph.ir import Compute
from compiler.index import ZERO, Index
from compiler.scalar import Expr, Load, apply

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True)
class _Term:
    """A value, and the index of each of its dimensions. Indices of an ellipsis are its places from the end: "-1"."""

    value: str
    indices: tuple[str, ...]


def _einsum(call: OperatorCall) -> None:
    terms, result = _parsed(call)
    sizes = _sizes(call, terms)
    if not set(result) <= sizes.keys() or len(set(result)) != len(result):
        call.reject(f"has the output indices {', '.join(result)}")
    first, *others = terms
    for place, other in enumerate(others):
        later = {index for term in others[place + 1 :] for index in term.indices}
        if place == len(others) - 1:
            return call.emit(_product(call, (first, other), result, sizes))
        kept = tuple(i for i in sizes if i in (*first.indices, *other.indices) and i in (*later, *result))
        compute = _product(call, (first, other), kept, sizes)
        first = _Term(call.intermediate(compute, f"product{place}"), kept)
    return call.emit(_product(call, (first,), result, sizes))


def _parsed(call: OperatorCall) -> tuple[list[_Term], tuple[str, ...]]:
    equation = call.text("equation", "").replace(" ", "")
    left, arrow, right = equation.partition("->")
    texts, values = left.split(","), call.values()
    if len(texts) != len(values):
        call.reject(f"has {len(values)} inputs for the equation {equation[:60]!r}")
    terms = [
        _Term(v, _indices(call, t, len(call.builder.shapes[v]))) for t, v in zip(texts, values, strict=True)
    ]
    behind = max((len(term.indices) for term in terms), default=0)
    dots = tuple(str(-d) for d in range(behind, 0, -1) if any(str(-d) in t.indices for t in terms))
    if not arrow:
        once = [letter for letter in sorted(set(left)) if letter in _LETTERS and left.count(letter) == 1]
        return terms, (*dots, *once)
    before, ellipsis, after = right.partition("...")
    if not set(before + after) <= set(_LETTERS):
        call.reject(f"has the equation {equation[:60]!r}")
    return terms, (*before, *(dots if ellipsis else ()), *after)


def _indices(call: OperatorCall, text: str, rank: int) -> tuple[str, ...]:
    before, ellipsis, after = text.partition("...")
    hidden = rank - len(before) - len(after)
    if not set(before + after) <= set(_LETTERS) or hidden < 0 or (hidden and not ellipsis):
        call.reject(f"has the indices {text[:60]!r} for an input of {rank} dimensions")
    return (*before, *(str(d) for d in range(-hidden, 0)), *after)


def _sizes(call: OperatorCall, terms: Sequence[_Term]) -> dict[str, int]:
    """Extent of each index; a dimension of 1 is repeated."""
    found: dict[str, int] = {}
    for term in terms:
        for index, size in zip(term.indices, call.builder.shapes[term.value], strict=True):
            known = found.setdefault(index, size)
            if known != size and 1 not in (known, size):
                call.reject(f"has the extents {known} and {size} for one index")
            found[index] = size if known == 1 else known
    return found


def _product(
    call: OperatorCall, terms: Sequence[_Term], result: tuple[str, ...], sizes: Mapping[str, int]
) -> Compute:
    """The product, summed over the indices that are not in the result."""
    axes = output_axes(sizes[index] for index in result)
    places: dict[str, Index] = dict(zip(result, at(axes), strict=True))
    inner = ReduceAxes()
    for index in dict.fromkeys(index for term in terms for index in term.indices):
        if index not in places:
            places[index] = inner.index(sizes[index])
    factors: list[Expr] = [_element(call, term, places) for term in terms]
    dtype = call.dtype(*(term.value for term in terms))
    return reduced(axes, inner, "sum", factors[0] if len(factors) == 1 else apply("mul", *factors), dtype)


def _element(call: OperatorCall, term: _Term, places: Mapping[str, Index]) -> Load:
    shape = call.builder.shapes[term.value]
    indices = zip(shape, term.indices, strict=True)
    return Load(term.value, tuple(ZERO if size == 1 else places[index] for size, index in indices))


LOWERINGS: Mapping[str, Lowering] = {"Einsum": _einsum}
