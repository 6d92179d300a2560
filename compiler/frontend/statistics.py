"""Sums, means and deviations over parts of a tensor, which normalisations and softmax divide by."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from math import prod

from compiler.frontend.call import OperatorCall, size_of
from compiler.frontend.computes import ReduceAxes, at, broadcast, broadcast_load, output_axes, reduced, share
from compiler.graph.ir import Compute
from compiler.index import Index
from compiler.scalar import Const, Expr, Load, apply
from compiler.symbol import Axis

Finish = Callable[[Expr], Expr]


@dataclass(frozen=True, slots=True)
class Parts:
    """The elements of a value in parts of equal size, with one statistic per part.

    Attributes:
        outer: an axis per dimension of a statistic.
        indices: of an element of the value, in terms of the outer and inner axes.
        count: elements of a part.
        axes: of the value, along which a part has all elements.
    """

    call: OperatorCall
    value: str
    outer: tuple[Axis, ...]
    inner: ReduceAxes
    indices: tuple[Index, ...]
    count: int
    axes: tuple[int, ...]

    def _share(self) -> Expr:
        """1 / count."""
        along = prod(self.call.builder.shapes[self.value][axis] for axis in self.axes)
        return share(self.call, self.value, self.axes, self.count // along)

    def element(self) -> Expr:
        """An element of the value."""
        return Load(self.value, self.indices)

    def of(self, statistic: str) -> Expr:
        """The statistic of the element's part."""
        return Load(statistic, at(self.outer))

    def total(self, reducer: str, body: Expr, suffix: str, finish: Finish | None = None) -> str:
        """Name of a new statistic: `body` reduced over each part, then `finish`."""
        total = reduced(self.outer, self.inner, reducer, body)
        if finish is None:
            return self.call.intermediate(total, suffix)
        name = self.call.intermediate(total, f"{suffix}.total")
        return self.call.intermediate(Compute(self.outer, (), None, finish(self.of(name))), suffix)

    def mean(self) -> str:
        """The mean of each part."""
        return self.total("sum", self.element(), "mean", lambda s: apply("mul", s, self._share()))

    def square_mean(self, mean: str | None, suffix: str, finish: Finish) -> str:
        """`finish` of the mean square of each part, after subtraction of `mean`."""
        x = self.element() if mean is None else apply("sub", self.element(), self.of(mean))
        return self.total("sum", apply("mul", x, x), suffix, lambda s: finish(apply("mul", s, self._share())))


def along(call: OperatorCall, value: str, axes: Collection[int]) -> Parts:
    """A part per index of the other axes; statistics keep the reduced dimensions with extent 1."""
    shape = call.builder.shapes[value]
    outer = output_axes(1 if d in axes else n for d, n in enumerate(shape))
    inner = ReduceAxes()
    indices = tuple(
        inner.index(n) if d in axes else i for d, (n, i) in enumerate(zip(shape, at(outer), strict=True))
    )
    return Parts(
        call, value, outer, inner, indices, size_of(tuple(shape[d] for d in axes)), tuple(sorted(axes))
    )


def groups(call: OperatorCall, value: str, count: int) -> Parts:
    """A part per batch and group of channels, of a value of shape [batch, channels, ...]; `count` groups."""
    batch, channels, *rest = call.builder.shapes[value]
    outer = output_axes((batch, count))
    inner = ReduceAxes()
    n, group = at(outer)
    channel = group * (channels // count) + inner.index(channels // count)
    indices = (n, channel, *(inner.index(size) for size in rest))
    size = size_of((channels // count, *rest))
    return Parts(call, value, outer, inner, indices, size, tuple(range(2, len(rest) + 2)))


def inverse_deviation(epsilon: float) -> Finish:
    """1 / sqrt(variance + epsilon)."""
    return lambda v: apply("div", Const(1.0), apply("sqrt", apply("add", v, Const(epsilon))))


def affine(call: OperatorCall, axes: tuple[Axis, ...], x: Expr) -> Expr:
    """Scale x with input 1 and, where given, add input 2; both broadcast to the axes. Raises ModelError."""
    sizes = tuple(a.size for a in axes)
    for op, position in (("mul", 1), ("add", 2)):
        if call.has(position):
            if broadcast(call, [sizes, call.shape(position)]) != sizes:
                call.reject(f"has input {position} of shape {list(call.shape(position))} for {list(sizes)}")
            x = apply(op, x, broadcast_load(call, call.value(position), axes))
    return x
