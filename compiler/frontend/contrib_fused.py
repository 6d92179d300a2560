"""Operators that onnxruntime's optimisers make of several: of a convolution, of the parts of a transformer."""

from __future__ import annotations

from onnx import TensorProto, helper

from compiler.frontend.contrib_call import Call, Definition, Definitions


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
    kind = call.attribute("activation", b"").decode()
    numbers = list(call.attribute("activation_params", []))
    if kind in ("Relu", "Sigmoid", "Tanh"):
        call.let(kind, found, output=0)
    elif kind == "LeakyRelu":
        call.let(kind, found, output=0, alpha=numbers[0] if numbers else 0.01)
    elif kind == "HardSigmoid":
        alpha, beta = numbers or (0.2, 0.5)
        call.let(kind, found, output=0, alpha=alpha, beta=beta)
    elif kind == "Clip":
        call.let(kind, found, *map(call.number, numbers), output=0)
    elif not kind:
        call.let("Identity", found, output=0)


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


def _attention(call: Call) -> None:
    """Inputs: the value, its three projections as one matrix, their bias, a mask; no values of earlier steps.

    The mask has one number for each place (1: seen), of all queries or of each, or says how many places are seen.
    """
    if any(call.has(place) for place in range(4, len(call.node.input))) or call.attribute("do_rotary", 0):
        return
    heads = call.attribute("num_heads")
    batch, length, _ = call.sizes(call.node.input[0])
    masks = ((batch,), (batch, length), (batch, length, length))
    if call.has(3) and call.sizes(call.node.input[3]) not in masks:
        return
    three = call.sizes(call.node.input[1])[1]
    widths = list(call.attribute("qkv_hidden_sizes", [three // 3] * 3))
    joined = call.let("MatMul", call.input(0), call.input(1))
    if call.has(2):
        joined = call.let("Add", joined, call.input(2))
    parts = [f"p{n}" for n in range(3)]
    call.nodes.append(helper.make_node("Split", [joined, call.whole(*widths)], parts, axis=-1))
    turned = []
    for part, width in zip(parts, widths, strict=True):
        rows = call.let("Reshape", part, call.whole(batch, length, heads, width // heads))
        turned.append(call.let("Transpose", rows, perm=[0, 2, 1, 3]))
    query, key, value = turned
    scale = call.attribute("scale", 0.0) or (widths[0] // heads) ** -0.5
    scores = call.let("MatMul", query, call.let("Transpose", key, perm=[0, 1, 3, 2]))
    scores = call.let("Mul", scores, call.number(scale))
    hidden = call.number(call.attribute("mask_filter_value", -10000.0))
    if call.has(3):
        scores = call.let("Add", scores, call.let("Mul", _unseen(call, batch, length), hidden))
    if call.attribute("unidirectional", 0):
        ones = call.let("Expand", call.number(1.0), call.whole(length, length))
        later = call.let("Trilu", ones, call.let("Constant", value_int=1), upper=1)
        scores = call.let("Add", scores, call.let("Mul", later, hidden))
    found = call.let("MatMul", call.let("Softmax", scores, axis=-1), value)
    back = call.let("Transpose", found, perm=[0, 2, 1, 3])
    call.let("Reshape", back, call.whole(batch, length, widths[2]), output=0)


def _unseen(call: Call, batch: int, length: int) -> str:
    """1 at places that are not seen, of the form [batch, 1, 1, places]."""
    shape = call.sizes(call.node.input[3])
    mask = call.input(3)
    if len(shape) == 1:
        places = call.let("Unsqueeze", call.whole(*range(length)), call.whole(0))
        ends = call.let("Unsqueeze", call.let("Cast", mask, to=TensorProto.INT64), call.whole(1))
        unseen = call.let("GreaterOrEqual", places, ends)
        found = call.let("Cast", unseen, to=TensorProto.FLOAT)
    else:
        seen = call.let("Cast", mask, to=TensorProto.FLOAT)
        found = call.let("Sub", call.number(1.0), seen)
    return call.let("Reshape", found, call.whole(batch, 1, 1 if len(shape) < 3 else length, length))


FUSED: Definitions = {
    "Gelu": _gelu,
    "BiasGelu": _biased_gelu(by_tangent=False),
    "FastGelu": _biased_gelu(by_tangent=True),
    "QuickGelu": _quick_gelu,
    "SkipLayerNormalization": _with_skip(centred=True),
    "SkipSimplifiedLayerNormalization": _with_skip(centred=False),
    "FusedMatMul": _fused_product,
    "FusedConv": _fused_convolution,
    "EmbedLayerNormalization": _embedded,
    "Attention": _attention,
}
