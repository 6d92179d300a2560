"""Products with constants that are quantised in blocks, each with a scale and perhaps a zero point of its own."""

from __future__ import annotations

from math import prod

from onnx import TensorProto

from compiler.frontend.contrib_call import Call, Definitions

_BYTE = 8


def _product_of_bits(call: Call) -> None:
    """MatMulNBits. Inputs: the value, [columns, blocks, bytes of a block], scales, zero points, none, a bias.

    Numbers of four bits are two to a byte, the first in the lower half; a block of the sum has one scale for a column.
    The zero points of a column are packed likewise, or are floats; without them all are the middle of the range.
    """
    bits, block = call.attribute("bits", 4), call.attribute("block_size")
    length, columns = call.attribute("K"), call.attribute("N")
    if bits not in (4, _BYTE) or call.has(4):
        return  # not defined here
    blocks = -(-length // block)
    numbers = _unpacked(call, call.input(1), bits, (columns, blocks, block))
    if call.has(3) and _is_packed(call, columns, blocks, bits):
        zeros = _unpacked(call, call.input(3), bits, (columns, -1))
        first = (call.whole(0), call.whole(blocks), call.whole(1))
        zeros = call.let("Reshape", call.let("Slice", zeros, *first), call.whole(columns, blocks, 1))
    elif call.has(3):
        zeros = call.let("Reshape", call.input(3), call.whole(columns, blocks, 1))
    else:
        zeros = call.number(1 << (bits - 1))
    scales = call.let("Reshape", call.input(2), call.whole(columns, blocks, 1))
    real = call.let("Mul", call.let("Sub", numbers, zeros), scales)
    rows = call.let("Reshape", real, call.whole(columns, blocks * block))
    rows = call.let("Slice", rows, call.whole(0), call.whole(length), call.whole(1))
    turned = call.let("Transpose", rows, perm=[1, 0])
    found = call.let("MatMul", call.input(0), turned)
    if call.has(5):
        call.let("Add", found, call.input(5), output=0)
    else:
        call.let("Identity", found, output=0)


def _is_packed(call: Call, columns: int, blocks: int, bits: int) -> bool:
    """Whether zero points are as many bytes as packed ones take; floats, one for each block, are more of them."""
    return prod(call.sizes(call.node.input[3])) == columns * -(-blocks * bits // _BYTE)


def _unpacked(call: Call, packed: str, bits: int, shape: tuple[int, ...]) -> str:
    """Floats of packed numbers; what fills the last byte up counts as well."""
    if bits != _BYTE:
        lower = call.let("BitwiseAnd", packed, _byte(call, (1 << bits) - 1))
        upper = call.let("BitShift", packed, _byte(call, bits), direction="RIGHT")
        halves = (call.let("Unsqueeze", half, call.whole(-1)) for half in (lower, upper))
        packed = call.let("Concat", *halves, axis=-1)
    return call.let("Cast", call.let("Reshape", packed, call.whole(*shape)), to=TensorProto.FLOAT)


def _byte(call: Call, value: int) -> str:
    return call.let("Cast", call.let("Constant", value_int=value), to=TensorProto.UINT8)


IN_BLOCKS: Definitions = {"MatMulNBits": _product_of_bits}
