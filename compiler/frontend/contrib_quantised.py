"""Quantised operators as onnxruntime's quantiser writes them: each works on the numbers that its bytes stand for.

QLinearAdd(a, sa, za, b, sb, zb, sc, zc)
    = QuantizeLinear(DequantizeLinear(a, sa, za) + DequantizeLinear(b, sb, zb), sc, zc)
"""

from __future__ import annotations

from onnx import TensorProto, helper

from compiler.frontend.contrib_call import Call, Definition, Definitions


def _of_two(operator: str) -> Definition:
    def define(call: Call) -> None:
        call.quantised(call.let(operator, call.real(0), call.real(3)), 6)

    return define


def _of_one(operator: str, *names: str) -> Definition:
    def define(call: Call) -> None:
        attributes = {name: call.attribute(name) for name in names if call.attribute(name) is not None}
        call.quantised(call.let(operator, call.real(0), **attributes), 3)

    return define


def _pooled(operator: str) -> Definition:
    """`channels_last`: of the input and the output."""

    def define(call: Call) -> None:
        rank = len(call.sizes(call.node.input[0]))
        last = bool(call.attribute("channels_last", 0))
        value = call.real(0)
        if last:
            value = call.let("Transpose", value, perm=[0, rank - 1, *range(1, rank - 1)])
        names = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")
        attributes = {name: call.attribute(name) for name in names if call.attribute(name) is not None}
        value = call.let(operator, value, **attributes)
        if last:
            value = call.let("Transpose", value, perm=[0, *range(2, rank), 1])
        call.quantised(value, 3)

    return define


def _q_concat(call: Call) -> None:
    """Inputs: scale and zero point of the output, then each part with its own."""
    parts = [call.real(place) for place in range(2, len(call.node.input), 3)]
    call.quantised(call.let("Concat", *parts, axis=call.attribute("axis")), 0)


def _q_softmax(call: Call) -> None:
    """As of opset 13 along one axis; of the older ones along all from there on, as a row."""
    axis = call.attribute("axis", -1)
    value = call.real(0)
    if call.attribute("opset", 13) >= 13:
        return call.quantised(call.let("Softmax", value, axis=axis), 3)
    rows = call.let("Flatten", value, axis=axis)
    found = call.let("Softmax", rows, axis=1)
    return call.quantised(call.let("Reshape", found, call.let("Shape", value)), 3)


def _q_gemm(call: Call) -> None:
    """The bias has the scale of the products; without a scale the output is not quantised."""
    names = ("alpha", "transA", "transB")
    attributes = {name: call.attribute(name) for name in names if call.attribute(name) is not None}
    inputs = [call.real(0), call.real(3, axis=0 if attributes.get("transB") else 1)]
    if call.has(6):
        scale = call.let("Mul", call.input(1), call.input(4))
        if "alpha" in attributes:
            scale = call.let("Mul", scale, call.number(attributes["alpha"]))
        bias = call.let("Cast", call.input(6), to=TensorProto.FLOAT)
        inputs.append(call.let("Mul", bias, scale))
    found = call.let("Gemm", *inputs, **attributes)
    if call.has(7):
        return call.quantised(found, 7)
    call.let("Identity", found, output=0)
    return None


def _dynamic_product(call: Call) -> None:
    """A float matrix, quantised as it comes, by a quantised one."""
    whole, scale, zero = "tq", "ts", "tz"
    call.nodes.append(helper.make_node("DynamicQuantizeLinear", [call.input(0)], [whole, scale, zero]))
    second = [call.input(1), call.input(2), call.input(3)]
    left = call.let("DequantizeLinear", whole, scale, zero)
    _biased_product(call, left, call.let("DequantizeLinear", *second, axis=-1), 4)


def _product_to_float(call: Call) -> None:
    """Inputs: both matrices, both scales, both zero points, a bias."""
    left, right = (
        call.let("DequantizeLinear", call.input(n), call.input(2 + n), call.input(4 + n), axis=-1)
        for n in range(2)
    )
    _biased_product(call, left, right, 6)


def _biased_product(call: Call, left: str, right: str, bias: int) -> None:
    found = call.let("MatMul", left, right)
    if call.has(bias):
        found = call.let("Add", found, call.input(bias))
    call.let("Identity", found, output=0)


QUANTISED: Definitions = {
    "QLinearAdd": _of_two("Add"),
    "QLinearMul": _of_two("Mul"),
    "QLinearSigmoid": _of_one("Sigmoid"),
    "QLinearLeakyRelu": _of_one("LeakyRelu", "alpha"),
    "QLinearAveragePool": _pooled("AveragePool"),
    "QLinearGlobalAveragePool": _pooled("GlobalAveragePool"),
    "QLinearConcat": _q_concat,
    "QLinearSoftmax": _q_softmax,
    "QGemm": _q_gemm,
    "DynamicQuantizeMatMul": _dynamic_product,
    "MatMulIntegerToFloat": _product_to_float,
}
