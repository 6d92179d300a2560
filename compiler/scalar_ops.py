"""Operations of scalar expressions and what reduces by them: types and meaning, as data."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from compiler import elementary
from compiler.dtype import DType

WHOLE_BITS: Mapping[int, DType] = {4: DType.U4, 8: DType.U8, 16: DType.U16, 32: DType.U32, 64: DType.U64}
"""The whole numbers without a sign of so many bits."""


class Signature(enum.Enum):
    """Types that an operation takes and gives. T is one type for all arguments, and one that is computed with."""

    NUMBERS = "numbers to a number"  # T is a float or a whole number
    FLOATS = "floats to a float"
    WHOLE = "whole numbers to a whole number"
    BITS = "whole numbers or truth values, bit by bit"
    TEST = "two of any type to a truth value"
    ORDER = "two numbers to a truth value"
    FIXED = "one type, a stored one too, to one other"
    CHOICE = "a truth value and two of any type, stored ones too, to that type"


@dataclass(frozen=True, slots=True)
class ScalarOp:
    """Types and meaning (on NumPy arrays) of an operation; the code generator has its own table of instructions."""

    arity: int
    evaluate: Callable[..., Any]
    signature: Signature = Signature.NUMBERS
    types: tuple[DType, DType] | None = None
    """Of Signature.FIXED: what it takes and gives."""


def bits_of(kind: DType) -> str:
    """The operation that takes a float's bits as a whole number without a sign."""
    return f"bits_of_{kind.value}"


def of_bits(kind: DType) -> str:
    """The operation that makes a float of its bits."""
    return f"{kind.value}_of_bits"


BY_BITS: Mapping[str, tuple[DType, DType]] = {
    op: types
    for kind in DType
    if kind.is_float and kind is not DType.F24
    for op, types in (
        (bits_of(kind), (kind, WHOLE_BITS[kind.bits])),
        (of_bits(kind), (WHOLE_BITS[kind.bits], kind)),
    )
}
"""The operations of bits, and the types that they take and give."""


def _bits_ops() -> Mapping[str, ScalarOp]:
    found = {}
    for op, (taken, given) in BY_BITS.items():
        kind, whole, change = (
            (taken, given, elementary.bits) if taken.is_float else (given, taken, elementary.made)
        )
        evaluate = partial(change, kind=kind.numpy, whole=whole.numpy)
        found[op] = ScalarOp(1, evaluate, Signature.FIXED, (taken, given))
    return found


def _function(evaluate: Callable[..., Any], arity: int = 1) -> ScalarOp:
    """An elementary function of floats, computed in double precision."""
    return ScalarOp(arity, elementary.in_double(evaluate), Signature.FLOATS)


OPS: Mapping[str, ScalarOp] = {
    "add": ScalarOp(2, np.add),
    "sub": ScalarOp(2, np.subtract),
    "mul": ScalarOp(2, np.multiply),
    "div": ScalarOp(2, elementary.divide),  # of whole numbers without the fraction; 0 where the divisor is 0
    "rem": ScalarOp(2, elementary.remainder),  # x - y * (x / y without its fraction): it has the sign of x
    "max": ScalarOp(2, np.maximum),
    "min": ScalarOp(2, np.minimum),
    "larger": ScalarOp(2, np.maximum, Signature.FLOATS),  # of two numbers; if one is NaN, either
    "at_most": ScalarOp(2, np.minimum, Signature.FLOATS),  # x, known not to be above y: costs nothing
    "neg": ScalarOp(1, np.negative),
    "abs": ScalarOp(1, np.abs),
    "and": ScalarOp(2, np.bitwise_and, Signature.BITS),
    "or": ScalarOp(2, np.bitwise_or, Signature.BITS),
    "xor": ScalarOp(2, np.bitwise_xor, Signature.BITS),
    "not": ScalarOp(1, np.invert, Signature.BITS),
    "shift_left": ScalarOp(2, elementary.shift_left, Signature.WHOLE),
    "shift_right": ScalarOp(2, elementary.shift_right, Signature.WHOLE),  # copies of the sign come in
    "equal": ScalarOp(2, np.equal, Signature.TEST),
    "less": ScalarOp(2, np.less, Signature.ORDER),
    "less_equal": ScalarOp(2, np.less_equal, Signature.ORDER),
    "select": ScalarOp(3, np.where, Signature.CHOICE),
    "sqrt": ScalarOp(1, np.sqrt, Signature.FLOATS),
    "floor": ScalarOp(1, np.floor, Signature.FLOATS),
    "ceil": ScalarOp(1, np.ceil, Signature.FLOATS),
    "round": ScalarOp(1, np.rint, Signature.FLOATS),
    # Larger for a larger float, largest for NaN, 0 for both zeros.
    "ordinal": ScalarOp(1, elementary.ordinal, Signature.FIXED, (DType.F32, DType.I32)),
    **_bits_ops(),
    "as_bf16": ScalarOp(1, elementary.as_bf16, Signature.FLOATS),
    "finite_bf16": ScalarOp(1, elementary.finite_bf16, Signature.FLOATS),
    "rsqrt": _function(elementary.rsqrt),
    "inverse_fourth_root": _function(elementary.inverse_fourth_root),
    "exp": _function(np.exp),
    "log": _function(np.log),
    "erf": _function(elementary.erf),
    "sigmoid": _function(elementary.sigmoid),
    "sin": _function(np.sin),
    "cos": _function(np.cos),
    "tan": _function(np.tan),
    "asin": _function(np.arcsin),
    "acos": _function(np.arccos),
    "atan": _function(np.arctan),
    "sinh": _function(np.sinh),
    "cosh": _function(np.cosh),
    "tanh": _function(np.tanh),
    "asinh": _function(np.arcsinh),
    "acosh": _function(np.arccosh),
    "atanh": _function(np.arctanh),
    "pow": ScalarOp(2, elementary.power),
}


@dataclass(frozen=True, slots=True)
class Reducer:
    """How a reduction combines: the operation of OPS, and its neutral element for floats."""

    op: str
    neutral: float


REDUCERS: Mapping[str, Reducer] = {
    "sum": Reducer("add", 0.0),
    "prod": Reducer("mul", 1.0),
    "max": Reducer("max", float("-inf")),
    "largest": Reducer("larger", float("-inf")),
    "min": Reducer("min", float("inf")),
}
