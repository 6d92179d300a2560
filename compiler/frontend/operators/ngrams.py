"""TfIdfVectorizer: how often the n-grams of a pool stand in sequences of tokens, in a row or some tokens apart.

count[g] = sum over distances d and places c of (x[c] = pool[g, 0] and x[c + d] = pool[g, 1] and ...)
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx import TensorProto, helper

from compiler.dtype import DType
from compiler.frontend.call import Array, Lowering, OperatorCall
from compiler.frontend.computes import ReduceAxes, at, output_axes, reduced
from compiler.frontend.limits import checked_shape
from compiler.graph.ir import Compute
from compiler.index import Index
from compiler.scalar import Cast, Const, Expr, Load, apply

_MODES = ("TF", "IDF", "TFIDF")


def _vectorise(call: OperatorCall) -> None:
    """Emit a number per n-gram: its count, its weight where there is any, or its count times its weight."""
    kind, shape, mode = call.dtype(call.value(0)), call.shape(0), call.text("mode", "")
    if call.texts("pool_strings") or kind not in (DType.I32, DType.I64):
        call.unsupported("tokens that are no whole numbers")
    lengths = range(call.integer("min_gram_length"), call.integer("max_gram_length") + 1)
    skipped, places = call.integer("max_skip_count"), call.ints("ngram_indexes") or []
    pools = _pools(call)
    if (
        len(shape) not in (1, 2)
        or mode not in _MODES
        or not lengths
        or skipped < 0
        or sum(map(len, pools)) != len(places)
        or not places
        or min(places) < 0
    ):
        call.reject(
            f"has mode {mode!r}, tokens of shape {list(shape)}, {sum(map(len, pools))} n-grams for {len(places)} "
            f"places, and counts those of {lengths.start} to {lengths.stop - 1} tokens with {skipped} skipped"
        )
    if len(set(places)) < len(places):
        call.unsupported("n-grams that are counted together")
    (size,) = checked_shape((max(places) + 1,), f"the output of node {call.label!r}")
    none = Compute(output_axes((*shape[:-1], 1)), (), None, Const(0, DType.I32), DType.I32)
    found = [call.intermediate(none, "none")]
    order, first, counted = np.zeros(size, np.int64), 0, 1
    for length, pool in enumerate(pools, 1):
        if length in lengths and len(pool):
            found.append(_counts(call, pool, skipped if length > 1 else 0, kind))
            order[places[first : first + len(pool)]] = counted + np.arange(len(pool))
            counted += len(pool)
        first += len(pool)
    counts, ordered = call.fresh("counts"), call.fresh("ordered")
    whole = call.intermediate_constant(order, "order")
    nodes = [
        helper.make_node("Concat", found, [counts], axis=-1),
        helper.make_node("Gather", [counts, whole], [ordered], axis=-1),
    ]
    if mode == "IDF":
        some = call.fresh("some")
        zero = call.intermediate_constant(np.array(0, np.int32), "zero")
        nodes.append(helper.make_node("Greater", [ordered, zero], [some]))
        ordered = some
    last = call.proto.output[0]
    result = last if mode == "TF" else call.fresh("result")
    nodes.append(helper.make_node("Cast", [ordered], [result], to=TensorProto.FLOAT))
    if mode != "TF":
        nodes.append(helper.make_node("Mul", [result, _weights(call, places, size)], [last]))
    call.expand(nodes, {"": 13})


def _pools(call: OperatorCall) -> list[Array]:
    """[n-grams, tokens] by the number of tokens, from 1 on."""
    pool, starts = call.ints("pool_int64s") or [], call.ints("ngram_counts") or []
    parts = [pool[a:b] for a, b in zip(starts, (*starts[1:], len(pool)), strict=True) if 0 <= a <= b]
    if len(parts) < len(starts) or any(len(part) % n for n, part in enumerate(parts, 1)):
        call.reject(f"has n-grams that begin at {starts} of a pool of {len(pool)} tokens")
    return [np.array(part, np.int64).reshape(-1, n) for n, part in enumerate(parts, 1)]


def _counts(call: OperatorCall, pool: Array, skipped: int, kind: DType) -> str:
    """[..., n-grams] whole numbers: the counts of each with 0 to `skipped` tokens between two of its own."""
    value, shape = call.value(0), call.shape(0)
    length = pool.shape[1]
    tokens = call.intermediate_constant(pool, f"pool{length}")
    axes = output_axes((*shape[:-1], len(pool)))
    total: Expr = Const(0, DType.I32)
    for distance in range(1, skipped + 2):
        starts = shape[-1] - (length - 1) * distance
        if starts < 1:
            break
        inner = ReduceAxes()
        place, hit = inner.index(starts), None
        for n in range(length):
            token = Load(value, (*at(axes[:-1]), place + n * distance))
            wide = token if kind is DType.I64 else Cast(token, DType.I64)
            same = apply("equal", wide, Load(tokens, (at(axes)[-1], Index.of(n))))
            hit = same if hit is None else apply("and", hit, same)
        assert hit is not None
        count = reduced(axes, inner, "sum", Cast(hit, DType.I32), DType.I32)
        total = apply("add", total, Load(call.intermediate(count, f"counts{length}.{distance}"), at(axes)))
    return call.intermediate(Compute(axes, (), None, total, DType.I32), f"counts{length}")


def _weights(call: OperatorCall, places: list[int], size: int) -> str:
    weights = call.floats("weights") or [1.0] * len(places)
    if len(weights) != len(places):
        call.reject(f"has {len(weights)} weights for {len(places)} n-grams")
    found = np.zeros(size, np.float32)
    found[places] = weights
    return call.intermediate_constant(found, "weights")


LOWERINGS: Mapping[str, Lowering] = {"TfIdfVectorizer": _vectorise}
