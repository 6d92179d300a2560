"""Cells of RNN, GRU and LSTM: a step of one direction, and the activations in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from compiler.dtype import DType
from compiler.frontend.call import OperatorCall
from compiler.frontend.computes import at, output_axes
from compiler.graph.ir import Compute
from compiler.index import ZERO as ZERO_INDEX
from compiler.index import Index
from compiler.scalar import Bound, Cast, Const, Expr, Guard, Load, apply
from compiler.symbol import axis

Activation = Callable[[Expr, float, float], Expr]
ZERO, ONE = Const(0.0), Const(1.0)


def _elu(x: Expr, alpha: float, _: float) -> Expr:
    grown = apply("mul", Const(alpha), apply("sub", apply("exp", apply("min", x, ZERO)), ONE))
    return apply("select", apply("less", ZERO, x), x, grown)


def _line(x: Expr, alpha: float, beta: float) -> Expr:
    return apply("add", apply("mul", x, Const(alpha)), Const(beta))


def _softplus(x: Expr, _: float, __: float) -> Expr:
    """log(1 + exp(x)) as max(x, 0) + log(1 + exp(-|x|)), which does not overflow."""
    tail = apply("log", apply("add", ONE, apply("exp", apply("neg", apply("abs", x)))))
    return apply("add", apply("max", x, ZERO), tail)


_ACTIVATIONS: Mapping[str, tuple[Activation, float, float]] = {
    "relu": (lambda x, _, __: apply("max", x, ZERO), 0.0, 0.0),
    "tanh": (lambda x, _, __: apply("tanh", x), 0.0, 0.0),
    "sigmoid": (lambda x, _, __: apply("sigmoid", x), 0.0, 0.0),
    "affine": (_line, 1.0, 0.0),
    "leakyrelu": (
        lambda x, a, _: apply("select", apply("less", x, ZERO), apply("mul", x, Const(a)), x),
        0.01,
        0.0,
    ),
    "thresholdedrelu": (lambda x, a, _: apply("select", apply("less", Const(a), x), x, ZERO), 1.0, 0.0),
    "scaledtanh": (
        lambda x, a, b: apply("mul", Const(a), apply("tanh", apply("mul", Const(b), x))),
        1.0,
        1.0,
    ),
    "hardsigmoid": (
        lambda x, a, b: apply("max", ZERO, apply("min", ONE, _line(x, a, b))),
        0.2,
        0.5,
    ),
    "elu": (_elu, 1.0, 0.0),
    "softsign": (lambda x, _, __: apply("div", x, apply("add", ONE, apply("abs", x))), 0.0, 0.0),
    "softplus": (_softplus, 0.0, 0.0),
}
"""By name in lower case: the function, and its alpha and beta where the node gives none."""

Function = Callable[[Expr], Expr]


@dataclass(frozen=True)
class Cell:
    """What an operator is: its gates, its activations in a direction, and whether its state has a cell."""

    gates: int
    activations: tuple[str, ...]
    has_cell: bool


CELLS: Mapping[str, Cell] = {
    "RNN": Cell(1, ("Tanh",), has_cell=False),
    "GRU": Cell(3, ("Sigmoid", "Tanh"), has_cell=False),
    "LSTM": Cell(4, ("Sigmoid", "Tanh", "Tanh"), has_cell=True),
}


@dataclass(frozen=True)
class Sizes:
    """Of a node."""

    steps: int
    batch: int
    inputs: int
    units: int
    directions: int


class Layer:
    """One direction of a node."""

    def __init__(self, call: OperatorCall, cell: Cell, sizes: Sizes, direction: int) -> None:
        self.call, self.cell, self.sizes, self.direction = call, cell, sizes, direction
        self.functions = _functions(call, cell, sizes.directions)[direction]
        self.clip = call.number("clip", 0.0)
        self.by_batch = call.integer("layout") == 1
        self.axes = output_axes((1, sizes.batch, sizes.units))
        self.places = at(self.axes)[1:]
        self.lengths = _lengths(call, sizes)

    def initial(self, position: int, suffix: str) -> str:
        """A state [1, batch, units] before the first step."""
        if not self.call.has(position):
            zeros = np.zeros((1, self.sizes.batch, self.sizes.units), np.float32)
            return self.call.intermediate_constant(zeros, f"{suffix}.{self.direction}")
        b, j = self.places
        d = Index.of(self.direction)
        load = Load(self.call.value(position), (b, d, j) if self.by_batch else (d, b, j))
        return self.call.intermediate(Compute(self.axes, (), None, load), f"{suffix}.{self.direction}")

    def entering(self) -> str:
        """E[t, b, n], biases included; those of the recurrent side too, unless a gate comes in between."""
        call, s = self.call, self.sizes
        width = self.cell.gates * s.units
        axes = output_axes((s.steps, s.batch, width))
        t, b, n = at(axes)
        inner = axis("r0", s.inputs)
        i, d = Index.of("r0"), Index.of(self.direction)
        x = Load(call.value(0), (b, t, i) if self.by_batch else (t, b, i))
        body = apply("mul", x, Load(call.value(1), (d, n, i)))
        product = call.intermediate(Compute(axes, (inner,), "sum", body), f"entering.{self.direction}")
        if not call.has(3):
            return product
        total = apply("add", Load(product, (t, b, n)), Load(self._bias(), (n,)))
        return call.intermediate(Compute(axes, (), None, total), f"biased.{self.direction}")

    def _bias(self) -> str:
        """Both biases of each gate; of a gate that is applied before, only that of the input."""
        width = self.cell.gates * self.sizes.units
        axes = output_axes((width,))
        (n,) = at(axes)
        d = Index.of(self.direction)
        bias = self.call.value(3)
        other: Expr = Load(bias, (d, n + width))
        if self.gated_after:
            other = Guard((Bound(n, 0, 2 * self.sizes.units),), other, ZERO)
        body = apply("add", Load(bias, (d, n)), other)
        return self.call.intermediate(Compute(axes, (), None, body), f"bias.{self.direction}")

    @property
    def gated_after(self) -> bool:
        """Whether a GRU applies its reset gate after the product."""
        return self.cell.gates == 3 and bool(self.call.integer("linear_before_reset"))

    def product(self, state: str, first: int, count: int, suffix: str) -> str:
        """Z[b, n] of a state, for `count` gates from the first on."""
        s = self.sizes
        axes = output_axes((s.batch, count * s.units))
        b, n = at(axes)
        k = Index.of("r0")
        weight = Load(self.call.value(2), (Index.of(self.direction), n + first * s.units, k))
        body = apply("mul", Load(state, (ZERO_INDEX, b, k)), weight)
        return self.call.intermediate(Compute(axes, (axis("r0", s.units),), "sum", body), suffix)

    def map(self, body: Expr, suffix: str) -> str:
        """A value [1, batch, units]."""
        return self.call.intermediate(Compute(self.axes, (), None, body), suffix)

    def load(self, value: str) -> Load:
        """The element of a state."""
        return Load(value, (ZERO_INDEX, *self.places))

    def gate(self, entering: str, step: int, product: str, gate: int, first: int = 0) -> Expr:
        """E + Z of a gate; `first`: the first gate of the product."""
        b, j = self.places
        units = self.sizes.units
        e = Load(entering, (Index.of(step), b, j + gate * units))
        return apply("add", e, Load(product, (b, j + (gate - first) * units)))

    def clipped(self, x: Expr) -> Expr:
        """What enters an activation."""
        if not self.clip:
            return x
        return apply("max", Const(-self.clip), apply("min", Const(self.clip), x))

    def apply(self, function: int, x: Expr) -> Expr:
        """An activation of what is clipped."""
        return self.functions[function](self.clipped(x))

    def while_going(self, step: int, new: Expr, old: Expr) -> Expr:
        """`new` in sequences that have the step, else `old`."""
        if self.lengths is None:
            return new
        length = Cast(Load(self.lengths, (self.places[0],)), DType.F32)
        return apply("select", apply("less", Const(step + 0.5), length), new, old)


def _functions(call: OperatorCall, cell: Cell, directions: int) -> list[list[Function]]:
    """The activations of each direction."""
    count = len(cell.activations)
    found = call.attribute("activations", 8)  # strings
    names = [s.decode() for s in found.strings] if found is not None else list(cell.activations) * directions
    if len(names) != count * directions:
        call.reject(f"has {len(names)} activations instead of {count * directions}")
    alphas, betas = list(call.floats("activation_alpha") or ()), list(call.floats("activation_beta") or ())
    functions: list[Function] = []
    for place, name in enumerate(names):
        if name.lower() not in _ACTIVATIONS:
            call.unsupported(f"activation {name}")
        function, alpha, beta = _ACTIVATIONS[name.lower()]
        a = alphas[place] if place < len(alphas) else alpha
        b = betas[place] if place < len(betas) else beta
        functions.append(lambda x, f=function, a=a, b=b: f(x, a, b))  # type: ignore[misc]
    return [functions[d * count : (d + 1) * count] for d in range(directions)]


def _lengths(call: OperatorCall, sizes: Sizes) -> str | None:
    """The lengths of the sequences; None where all have every step."""
    if not call.has(4):
        return None
    known = call.builder.constants.get(call.value(4))
    if known is not None and (known >= sizes.steps).all():
        return None
    return call.value(4)


def _rnn(layer: Layer, step: int, entering: str, state: str, _: str) -> tuple[str, str]:
    z = layer.product(state, 0, 1, f"product.{layer.direction}.{step}")
    new = layer.apply(0, layer.gate(entering, step, z, 0))
    kept = layer.while_going(step, new, layer.load(state))
    return layer.map(kept, f"state.{layer.direction}.{step}"), ""


def _gru(layer: Layer, step: int, entering: str, state: str, _: str) -> tuple[str, str]:
    where = f"{layer.direction}.{step}"
    after, h = layer.gated_after, layer.load(state)
    gates = layer.product(state, 0, 3 if after else 2, f"product.{where}")
    update = layer.apply(0, layer.gate(entering, step, gates, 0))
    reset = layer.apply(0, layer.gate(entering, step, gates, 1))
    b, j = layer.places
    units = layer.sizes.units
    enters = Load(entering, (Index.of(step), b, j + 2 * units))
    if after:
        inner: Expr = Load(gates, (b, j + 2 * units))
        if layer.call.has(3):
            bias = Load(layer.call.value(3), (Index.of(layer.direction), j + 5 * units))
            inner = apply("add", inner, bias)
        hidden = apply("add", enters, apply("mul", reset, inner))
    else:
        kept = layer.map(apply("mul", reset, h), f"reset.{where}")
        hidden = apply("add", enters, Load(layer.product(kept, 2, 1, f"hidden.{where}"), (b, j)))
    candidate = layer.apply(1, hidden)
    new = apply("add", apply("mul", apply("sub", ONE, update), candidate), apply("mul", update, h))
    return layer.map(layer.while_going(step, new, h), f"state.{where}"), ""


def _lstm(layer: Layer, step: int, entering: str, state: str, cell: str) -> tuple[str, str]:
    where, call = f"{layer.direction}.{step}", layer.call
    z = layer.product(state, 0, 4, f"product.{where}")
    old = layer.load(cell)

    def gate(number: int, peephole: int, seen: Expr) -> Expr:
        x = layer.gate(entering, step, z, number)
        if not call.has(7):
            return x
        place = layer.places[1] + peephole * layer.sizes.units
        weight = Load(call.value(7), (Index.of(layer.direction), place))
        return apply("add", x, apply("mul", weight, seen))

    into = layer.apply(0, gate(0, 0, old))
    keep = apply("sub", ONE, into) if call.integer("input_forget") else layer.apply(0, gate(2, 2, old))
    candidate = layer.apply(1, layer.gate(entering, step, z, 3))
    new_cell = apply("add", apply("mul", keep, old), apply("mul", into, candidate))
    cell = layer.map(layer.while_going(step, new_cell, old), f"cell.{where}")
    seen = layer.load(cell)
    out = layer.apply(0, gate(1, 1, seen))
    new = apply("mul", out, layer.functions[2](seen))
    return layer.map(layer.while_going(step, new, layer.load(state)), f"state.{where}"), cell


STEP: Mapping[str, Callable[[Layer, int, str, str, str], tuple[str, str]]] = {
    "RNN": _rnn,
    "GRU": _gru,
    "LSTM": _lstm,
}
"""A step of each operator: the layer, the number of the step, what enters, state and cell; new state and cell."""
