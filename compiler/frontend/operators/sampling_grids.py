"""GridSample: an image read at the places that a grid names, from -1 to 1 along each dimension.

Places outside of the image are 0, those of its border, or are reflected at the border until they are inside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from compiler.frontend.call import Lowering, OperatorCall
from compiler.frontend.computes import ReduceAxes, at, float_operands, output_axes, reduced
from compiler.frontend.sampling import sampled, taps
from compiler.index import Index
from compiler.scalar import Const, Expr, Load, apply

_MODES = {
    "nearest": "nearest",
    "bilinear": "linear",
    "linear": "linear",
    "bicubic": "cubic",
    "cubic": "cubic",
}
_PADDING = ("zeros", "border", "reflection")


def _grid_sample(call: OperatorCall) -> None:
    x, grid, shape, which = call.value(0), call.value(1), call.shape(0), call.shape(1)
    mode = _MODES.get(call.text("mode", "linear"), "")
    padding, aligned = call.text("padding_mode", "zeros"), bool(call.integer("align_corners"))
    rank = len(shape) - 2
    if not mode or padding not in _PADDING:
        call.reject(f"has mode {call.text('mode', '')[:20]!r} and padding_mode {padding[:20]!r}")
    if rank < 1 or len(which) != rank + 2 or which[0] != shape[0] or which[-1] != rank:
        call.reject(f"has a grid of shape {list(which)} for an input of shape {list(shape)}")
    float_operands(call, grid)
    if mode != "nearest":
        float_operands(call, x, grid)
    places = output_axes(which[:-1])
    found = []
    for d, size in enumerate(shape[2:]):
        # The first number of a place is that of the last dimension.
        number = Load(grid, (*at(places), Index.of(rank - 1 - d)))
        coordinate = _coordinate(number, size, aligned=aligned)
        if mode == "nearest":
            coordinate = apply("round", coordinate)
        inside = _inside(padding, size, aligned=aligned)
        if inside is not None:
            # An image that is not aligned ends half an element behind its last one.
            ends = (0.0, size - 1.0) if aligned else (-0.5, size - 0.5)
            below, above = (
                apply("less", coordinate, Const(ends[0])),
                apply("less", Const(ends[1]), coordinate),
            )
            coordinate = apply("select", apply("or", below, above), inside(coordinate), coordinate)
        found.append(taps(call, places, coordinate, size, mode, inside, f"place{d}"))
    axes = output_axes((shape[0], shape[1], *which[1:-1]))
    batch, channel, *spots = at(axes)
    inner = ReduceAxes()
    steps = [inner.index(t.count) for t in found]
    dtype = call.dtype(x)
    zero = Const(0.0 if dtype.is_float else 0, dtype) if padding == "zeros" else None
    body = sampled(found, (batch, *spots), steps, Load(x, (batch, channel, *steps)), zero)
    call.emit(reduced(axes, inner, "sum", body, dtype))


def _coordinate(number: Expr, size: int, *, aligned: bool) -> Expr:
    """From -1 .. 1 to an element: the ends are its first and last, or the borders around these."""
    if aligned:
        return apply("mul", apply("add", number, Const(1.0)), Const((size - 1) / 2))
    scaled = apply("mul", apply("add", number, Const(1.0)), Const(float(size)))
    return apply("mul", apply("sub", scaled, Const(1.0)), Const(0.5))


def _inside(padding: str, size: int, *, aligned: bool) -> Callable[[Expr], Expr] | None:
    if padding == "zeros":
        return None

    def clamped(x: Expr) -> Expr:
        return apply("min", apply("max", x, Const(0.0)), Const(size - 1.0))

    low, span = (0.0, size - 1.0) if aligned else (-0.5, float(size))
    if padding == "border" or span == 0:
        return clamped

    def reflected(x: Expr) -> Expr:
        """As far from the nearest end of the last whole reflection as it is in the image."""
        from_low = apply("abs", apply("sub", x, Const(low)))
        turns = apply("floor", apply("div", from_low, Const(2 * span)))
        rest = apply("sub", from_low, apply("mul", turns, Const(2 * span)))
        return apply("add", apply("min", rest, apply("sub", Const(2 * span), rest)), Const(low))

    return reflected


LOWERINGS: Mapping[str, Lowering] = {"GridSample": _grid_sample}
