"""Elements at places that are computed: sums over the elements of an image around each place.

    y[c, p] = sum over t, u of weight_0[p, t] * weight_1[p, u] * x[c, place_0[p, t], place_1[p, u]]

Places and weights are values of their own, shared by all channels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from compiler.dtype import DType
from compiler.frontend.call import OperatorCall
from compiler.frontend.computes import at
from compiler.graph.ir import Compute
from compiler.index import Index, LookedUp
from compiler.scalar import Cast, Const, Expr, Load, Lookup, apply
from compiler.symbol import Axis, axis

OFFSETS = {"nearest": (0,), "linear": (0, 1), "cubic": (-1, 0, 1, 2)}
"""The elements around a place, from the one at or below it."""
_SHARPNESS = -0.75


@dataclass(frozen=True, slots=True)
class Taps:
    """The elements of one dimension around each place; -1 where there is none.

    Attributes:
        place: [places..., taps], whole numbers.
        weight: of the same shape; None where there is one tap.
        size: elements of the dimension.
        count: taps.
    """

    place: str
    weight: str | None
    size: int
    count: int


def taps(
    call: OperatorCall,
    axes: tuple[Axis, ...],
    coordinate: Expr,
    size: int,
    mode: str,
    inside: Callable[[Expr], Expr] | None,
    name: str,
) -> Taps:
    """Taps around a coordinate over `axes`, a float32.

    `inside`: what the whole number of an element outside of the image stands for, as a float; None: for nothing.
    """
    offsets = OFFSETS[mode]
    # Far away is outside as well, and fits into a whole number.
    bounded = apply("min", apply("max", coordinate, Const(-4.0)), Const(size + 4.0))
    value = Load(call.intermediate(Compute(axes, (), None, bounded), f"{name}.at"), at(axes))
    tap = axis("t", len(offsets))
    steps = call.intermediate_constant(np.asarray(offsets, np.float32), f"{name}.steps")
    whole = apply("round" if mode == "nearest" else "floor", value)
    near = apply("add", whole, Load(steps, (Index.of("t"),)))
    kept: Expr
    if inside is None:
        beyond = apply("or", apply("less", near, Const(0.0)), apply("less", Const(size - 1.0), near))
        kept = apply("select", beyond, Const(-1.0), near)
    else:
        kept = inside(near)
    place = call.intermediate(
        Compute((*axes, tap), (), None, Cast(kept, DType.I32), DType.I32), f"{name}.place"
    )
    if len(offsets) == 1:
        return Taps(place, None, size, 1)
    distance = apply("abs", apply("sub", value, near))
    body = apply("sub", Const(1.0), distance) if mode == "linear" else _keys(distance)
    weight = call.intermediate(Compute((*axes, tap), (), None, body), f"{name}.weight")
    return Taps(place, weight, size, len(offsets))


def _keys(x: Expr) -> Expr:
    """Keys' kernel, of distances below 2."""
    a = _SHARPNESS

    def polynomial(*coefficients: float) -> Expr:
        total: Expr = Const(coefficients[0])
        for c in coefficients[1:]:
            total = apply("add", apply("mul", total, x), Const(c))
        return total

    near, far = polynomial(a + 2, -(a + 3), 0.0, 1.0), polynomial(a, -5 * a, 8 * a, -4 * a)
    return apply("select", apply("less_equal", x, Const(1.0)), near, far)


def sampled(
    found: Sequence[Taps],
    places: tuple[Index, ...],
    steps: Sequence[Index],
    element: Load,
    zero: Const | None,
) -> Expr:
    """One term: the weights times the element of `element` at the taps, which are its last indices.

    `zero`: instead of an element outside of the image, where there can be one.
    """
    names = [LookedUp(f"@{t.place}", t.size) for t in found]
    outer = element.indices[: len(element.indices) - len(found)]
    body: Expr = Load(element.buffer, (*outer, *map(Index.of, names)))
    for name, t, step in reversed(list(zip(names, found, steps, strict=True))):
        body = Lookup(name, Load(t.place, (*places, step)), body)
    if zero is not None:
        for t, step in zip(found, steps, strict=True):
            outside = apply("less", Load(t.place, (*places, step)), Const(0, DType.I32))
            body = apply("select", outside, zero, body)
    for t, step in zip(found, steps, strict=True):
        if t.weight is not None:
            body = apply("mul", body, Load(t.weight, (*places, step)))
    return body
