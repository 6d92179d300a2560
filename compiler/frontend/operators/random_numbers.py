"""Random numbers: of each place a hash of the seed, the node and the place.

    h = hash(seed, node, k0*i0 + k1*i1 + ...)      32 bits, uniform
    u = (h >> 8) / 2^24                            uniform in [0, 1)
    n = sqrt(-2 log(1 - u)) * cos(2 pi v)          normal (Box and Muller, A Note on the Generation of Random Normal
                                                   Deviates, 1958), v of another hash

A number depends on nothing but its place, so that any order of loops, any vectors and any threads draw the same (Salmon
et al., Parallel Random Numbers: As Easy as 1, 2, 3, 2011). Places are counted without their sizes: multiples of numbers
that are badly approximated together (the powers of what is the golden ratio for one dimension) meet only where there
are about 2^32 of them. The rounds are those of Wellons' hash "lowbias32", with a word of the key between.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from onnx import AttributeProto, TensorProto, helper

from compiler.dtype import DType
from compiler.frontend.call import Lowering, OperatorCall
from compiler.frontend.computes import at, counting, number, output_axes, stored, widened
from compiler.frontend.limits import checked_shape
from compiler.graph.ir import Compute
from compiler.scalar import Cast, Const, Expr, Load, apply
from compiler.seed import SEED

_FIRST, _SECOND = 0x7FEB352D, 0x846CA68B
_STREAMS = 0x9E3779B9
"""Between the hashes of one place."""
_Drawn = Callable[["_Places"], Expr]


def _normal(call: OperatorCall) -> None:
    mean, scale = call.number("mean", 0.0), call.number("scale", 1.0)
    _emit(call, lambda place: _moved(place.deviate(), mean, scale, place.dtype))


def _uniform(call: OperatorCall) -> None:
    low, high = call.number("low", 0.0), call.number("high", 1.0)
    _emit(call, lambda place: _moved(place.fraction(), low, high - low, place.dtype))


def _emit(call: OperatorCall, drawn: _Drawn) -> None:
    """Emit floats of the shape of the first input, or of the attribute where there is none."""
    if call.proto.op_type.endswith("Like"):
        like, shape, usual = call.value(0), call.shape(0), call.dtype(call.value(0))
    else:
        like, usual = None, DType.F32
        shape = checked_shape(call.ints("shape") or [], f"the output of node {call.label!r}")
    kind = call.element_type("dtype", usual)
    if not kind.is_float:
        call.unsupported(f"random numbers of element type {kind.value}")
    place = _Places(call, shape, like, kind.computed)
    body = drawn(place)
    call.emit(Compute(output_axes(shape), (), None, stored(call, body, kind), kind))


def _bernoulli(call: OperatorCall) -> None:
    """1 where a uniform number is below the probability, else 0."""
    chance, shape = call.value(0), call.shape(0)
    given = call.dtype(chance)
    kind, axes = call.element_type("dtype", given), output_axes(shape)
    place = _Places(call, shape, chance, given.computed)
    hit = apply("less", place.fraction(), widened(Load(chance, at(axes)), given))
    call.emit(Compute(axes, (), None, hit if kind is DType.BOOL else Cast(hit, kind), kind))


def _multinomial(call: OperatorCall) -> None:
    """Classes by the logarithms of their weights: the largest after a Gumbel deviate was added to each."""
    logits, count = call.value(0), call.integer("sample_size", 1)
    if len(call.shape(0)) != 2 or call.dtype(logits) is not DType.F32 or count < 1:
        call.reject(
            f"has weights of shape {list(call.shape(0))} and sample_size {count} instead of f32 rows and 1 or more"
        )
    kind = call.integer("dtype", TensorProto.INT32)
    rows, classes = call.shape(0)
    shape = checked_shape((rows, count, classes), f"what node {call.label!r} draws")
    axes = output_axes(shape)
    row, _, column = at(axes)
    # Of a number in the middle between two fractions both logarithms are finite.
    middle = apply("add", _Places(call, shape, None, DType.F32).fraction(), Const(2.0**-25))
    gumbel = apply("neg", apply("log", apply("neg", apply("log", middle))))
    noisy = call.intermediate(
        Compute(axes, (), None, apply("add", Load(logits, (row, column)), gumbel), DType.F32), "noisy"
    )
    found = call.fresh("found")
    call.expand(
        [
            helper.make_node("ArgMax", [noisy], [found], axis=2, keepdims=0),
            helper.make_node("Cast", [found], [call.proto.output[0]], to=kind),
        ],
        {"": 13},
    )


class _Places:
    """What is drawn at each place of an output."""

    def __init__(self, call: OperatorCall, shape: Sequence[int], like: str | None, dtype: DType) -> None:
        """`like`: a value of the shape, where there is one; `dtype`: F32 or F64, of what is drawn."""
        self.dtype = dtype
        start, key = _words(call)
        self._key = Load(call.intermediate(Compute((), (), None, key, DType.U32), "key"), ())
        self._count: Expr = Load(call.intermediate(Compute((), (), None, start, DType.U32), "start"), ())
        for d, index in enumerate(at(output_axes(shape))):
            if like is None:
                numbers = call.intermediate_constant(np.arange(shape[d], dtype=np.uint32), f"numbers{d}")
            else:
                numbers = counting(call, like, [d], DType.U32, f"numbers{d}")
            step = _word(int(2**32 / _ratio(len(shape)) ** (d + 1)) | 1)
            self._count = apply("add", self._count, apply("mul", Load(numbers, (index,)), step))

    def deviate(self) -> Expr:
        """Normal, of mean 0 and variance 1."""
        above = apply("sub", number(1, self.dtype), self.fraction())
        length = apply("sqrt", apply("mul", number(-2, self.dtype), apply("log", above)))
        turn = apply("mul", number(2 * math.pi, self.dtype), self.fraction(1))
        return apply("mul", length, apply("cos", turn))

    def fraction(self, stream: int = 0) -> Expr:
        """Uniform in [0, 1), of 24 bits or (f64) 53; each stream is another number."""
        if self.dtype is not DType.F64:
            return apply("mul", self._whole(2 * stream, 24), Const(2.0**-24))
        high = apply("mul", self._whole(2 * stream, 26), number(2.0**-26, DType.F64))
        return apply("add", high, apply("mul", self._whole(2 * stream + 1, 27), number(2.0**-53, DType.F64)))

    def _whole(self, stream: int, bits: int) -> Expr:
        """The first bits of a hash as a float; by way of i32, which vectors convert."""
        mixed = _mixed(self._count, apply("add", self._key, _word(_STREAMS * stream)))
        return Cast(Cast(apply("shift_right", mixed, _word(32 - bits)), DType.I32), self.dtype)


def _ratio(dimensions: int) -> float:
    """The root above 1 of x^(d + 1) = x + 1: the golden ratio for one dimension."""
    found = 2.0
    for _ in range(64):
        found = (1 + found) ** (1 / (dimensions + 1))
    return found


def _words(call: OperatorCall) -> tuple[Expr, Expr]:
    """Two words of the seed and of the node's name: no two nodes draw the same."""
    name = _word(zlib.crc32(call.proto.output[0].encode()))
    low: Expr
    high: Expr
    if call.attribute("seed", AttributeProto.FLOAT) is not None:
        (bits,) = struct.unpack("<I", struct.pack("<f", call.number("seed", 0.0)))
        low, high = _word(bits), _word(_STREAMS)
    else:
        seed, ones = Load(call.value(list(call.proto.input).index(SEED)), ()), number(0xFFFFFFFF, DType.I64)
        above = apply("shift_right", seed, number(32, DType.I64))
        low, high = (Cast(apply("and", part, ones), DType.U32) for part in (seed, above))
    return _mixed(apply("xor", low, name), high), _mixed(high, apply("add", low, name))


def _mixed(word: Expr, key: Expr) -> Expr:
    """Different keys are different permutations of all words, not parts of one sequence."""
    word = apply("add", apply("mul", _folded(word, 16), _word(_FIRST)), key)
    return _folded(apply("mul", _folded(word, 15), _word(_SECOND)), 16)


def _folded(word: Expr, bits: int) -> Expr:
    return apply("xor", word, apply("shift_right", word, _word(bits)))


def _word(value: int) -> Const:
    return Const(value % 2**32, DType.U32)


def _moved(value: Expr, by: float, times: float, dtype: DType) -> Expr:
    return apply("add", apply("mul", value, number(times, dtype)), number(by, dtype))


LOWERINGS: Mapping[str, Lowering] = {
    "Bernoulli": _bernoulli,
    "Multinomial": _multinomial,
    "RandomNormal": _normal,
    "RandomNormalLike": _normal,
    "RandomUniform": _uniform,
    "RandomUniformLike": _uniform,
}
