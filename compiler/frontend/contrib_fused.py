"""Operators that onnxruntime's optimisers make of several: of a convolution, of the parts of a transformer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onnx import TensorProto

from compiler.frontend.contrib_call import Call, Definition, Definitions

_ACTIVATIONS: Mapping[str, tuple[float, ...]] = {
    "Relu": (),
    "Sigmoid": (),
    "Tanh": (),
    "LeakyRelu": (0.01,),
    "HardSigmoid": (0.2, 0.5),
}
"""Functions that products and convolutions are fused with, and what their parameters are by default."""


def _gelu(call: Call) -> None:
    call.let("Gelu", call.input(0), output=0)


def _biased_gelu(*, by_tangent: bool) -> Definition:
    def define(call: Call) -> None:
        value = call.let("Add", call.input(0), call.input(1)) if call.has(1) else call.input(0)
        call.let("Gelu", value, output=0, approximate="tanh" if by_tangent else "none")

    return define


def _quick_gelu(call: Call) -> None:
    value = call.input(0)
    scaled = call.let("Mul", value, call.number(call.attribute("alpha", 1.702)))
    call.let("Mul", value, call.let("Sigmoid", scaled), output=0)


def _with_skip(*, centred: bool) -> Definition:
    """The sum of two values and a bias, normalised; the sum itself is the fourth output."""

    def define(call: Call) -> None:
        total = call.let("Add", call.input(0), call.input(1))
        bias = 4 if centred else 3
        if call.has(bias):
            total = call.let("Add", total, call.input(bias))
        if call.wants(3):
            call.let("Identity", total, output=3)
        epsilon = call.attribute("epsilon", 1e-12 if centred else 1e-5)
        if centred:
            inputs = [total, *(call.input(n) for n in (2, 3) if call.has(n))]
            call.let("LayerNormalization", *inputs, output=0, axis=-1, epsilon=epsilon)
        else:
            _root_mean_square(call, total, call.input(2), epsilon)

    return define


def _simplified(call: Call) -> None:
    """Without centring; no inverse of the root as a second output."""
    if call.attribute("axis", -1) not in (-1, len(call.sizes(call.node.input[0])) - 1):
        return  # not defined here
    _root_mean_square(call, call.input(0), call.input(1), call.attribute("epsilon", 1e-5))


def _root_mean_square(call: Call, value: str, scale: str, epsilon: float) -> None:
    mean = call.let("ReduceMean", call.let("Mul", value, value), call.whole(-1), keepdims=1)
    root = call.let("Sqrt", call.let("Add", mean, call.number(epsilon)))
    call.let("Mul", call.let("Div", value, root), scale, output=0)


def _fused_product(call: Call) -> None:
    """Of transposed matrices, times a number."""
    sides = []
    for place, name in enumerate(("transA", "transB")):
        rank = len(call.sizes(call.node.input[place]))
        if call.attribute(f"transBatch{name[-1]}", 0):
            return  # not defined here
        turned = [*range(rank - 2), rank - 1, rank - 2]
        side = call.input(place)
        sides.append(
            call.let("Transpose", side, perm=turned) if call.attribute(name, 0) and rank > 1 else side
        )
    found = call.let("MatMul", *sides)
    call.let("Mul", found, call.number(call.attribute("alpha", 1.0)), output=0)


def _fused_convolution(call: Call) -> None:
    """With an activation, and a value that is added before it."""
    names = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    attributes = {name: call.attribute(name) for name in names if call.attribute(name) is not None}
    inputs = [call.input(n) for n in range(3) if call.has(n) or n < 2]
    found = call.let("Conv", *inputs, **attributes)
    if call.has(3):
        found = call.let("Add", found, call.input(3))
    _activated(call, found, list(call.attribute("activation_params", [])))


def _fused_gemm(call: Call) -> None:
    """With an activation."""
    names = ("alpha", "beta", "transA", "transB")
    attributes = {name: call.attribute(name) for name in names if call.attribute(name) is not None}
    found = call.let("Gemm", *(call.input(n) for n in range(3) if call.has(n)), **attributes)
    given = (call.attribute(f"activation_{name}") for name in ("alpha", "beta", "gamma"))
    _activated(call, found, [number for number in given if number is not None])


def _activated(call: Call, value: str, numbers: Sequence[float]) -> None:
    """The output: a value under the call's activation, if it is a known one; `numbers`: its parameters."""
    kind = call.attribute("activation", b"").decode()
    if not kind or kind == "Identity":
        call.let("Identity", value, output=0)
    elif kind == "Clip":
        call.let(kind, value, *map(call.number, numbers), output=0)
    elif kind in _ACTIVATIONS:
        names = ("alpha", "beta")[: len(_ACTIVATIONS[kind])]
        call.let(kind, value, output=0, **dict(zip(names, numbers or _ACTIVATIONS[kind], strict=False)))


def _embedded(call: Call) -> None:
    """Inputs: words, kinds, the tables of words, places and kinds, scale, bias, mask, places."""
    ids = call.sizes(call.node.input[0])
    found = call.let("Gather", call.input(2), call.input(0))
    first = call.let("Unsqueeze", call.whole(*range(ids[1])), call.whole(0))
    places = call.input(8) or first
    found = call.let("Add", found, call.let("Gather", call.input(3), places))
    if call.has(1):
        found = call.let("Add", found, call.let("Gather", call.input(4), call.input(1)))
    if call.wants(2):
        call.let("Identity", found, output=2)
    epsilon = call.attribute("epsilon", 1e-12)
    call.let("LayerNormalization", found, call.input(5), call.input(6), output=0, axis=-1, epsilon=epsilon)
    if call.has(7):
        call.let("ReduceSum", call.input(7), call.whole(1), output=1, keepdims=0)
    elif call.wants(1):
        call.let("Cast", call.whole(*[0] * ids[0]), output=1, to=TensorProto.INT32)


FUSED: Definitions = {
    "Gelu": _gelu,
    "BiasGelu": _biased_gelu(by_tangent=False),
    "FastGelu": _biased_gelu(by_tangent=True),
    "QuickGelu": _quick_gelu,
    "SkipLayerNormalization": _with_skip(centred=True),
    "SkipSimplifiedLayerNormalization": _with_skip(centred=False),
    "FusedMatMul": _fused_product,
    "FusedConv": _fused_convolution,
    "FusedGemm": _fused_gemm,
    "SimplifiedLayerNormalization": _simplified,
    "EmbedLayerNormalization": _embedded,
}
