"""Attention as onnxruntime's optimisers write it, of one operator, and the rotation of what it compares."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import TensorProto, helper

from compiler.frontend.contrib_call import Call, Definitions

_UNSEEN = -10000.0
"""What is added to scores of places that are not to be seen, where no other number is asked for."""
_LAST = 1 << 60


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
    query, key, value = (
        _by_heads(call, part, (batch, length, heads, width // heads))
        for part, width in zip(parts, widths, strict=True)
    )
    added = [_hidden(call, _unseen(call, 3, batch, length))] if call.has(3) else []
    if call.attribute("unidirectional", 0):
        added.append(_hidden(call, _later(call, length, length)))
    _attended(call, (query, key, value), added, widths[0] // heads, (batch, length, widths[2]))


def _multi_head_attention(call: Call) -> None:
    """Inputs: queries, keys, values, their bias, a mask of keys, a bias of scores, keys and values of earlier steps.

    Keys and values may have their heads apart already, as those of another sequence have.
    """
    heads, sizes = call.attribute("num_heads"), call.sizes(call.node.input[0])
    if len(sizes) != 3 or not call.has(1) or not call.has(2) or any(map(call.has, range(8, 10))):
        return  # packed with the queries, or a cache that is larger than what it holds
    batch, length, width = sizes
    key, value = (call.sizes(call.node.input[place]) for place in (1, 2))
    if not {len(key), len(value)} <= {3, 4}:
        return  # packed
    found = (
        _own_heads(call, 0, heads, 0),
        _with_earlier(call, 1, _own_heads(call, 1, heads, width)),
        _with_earlier(call, 2, _own_heads(call, 2, heads, width + key[-1])),
    )
    keys = (key[1] if len(key) == 3 else key[2]) + (call.sizes(call.node.input[6])[2] if call.has(6) else 0)
    masks = ((batch,), (batch, keys), (batch, length, keys))
    if call.has(4) and call.sizes(call.node.input[4]) not in masks:
        return
    added = [call.input(5)] if call.has(5) else []
    if call.has(4):
        added.append(_hidden(call, _unseen(call, 4, batch, keys)))
    if call.attribute("unidirectional", 0):
        added.append(_hidden(call, _later(call, length, keys)))
    of_values = value[2] if len(value) == 3 else value[3] * heads
    _attended(call, found, added, width // heads, (batch, length, of_values))


def _own_heads(call: Call, place: int, heads: int, start: int) -> str:
    """An input, [batch, heads, places, width]; `start`: of its share of the bias of all three."""
    shape = call.sizes(call.node.input[place])
    if len(shape) == 4:
        return call.input(place)
    batch, places, width = shape
    value = call.input(place)
    if call.has(3):
        share = call.let("Slice", call.input(3), call.whole(start), call.whole(start + width), call.whole(0))
        value = call.let("Add", value, share)
    return _by_heads(call, value, (batch, places, heads, width // heads))


def _with_earlier(call: Call, place: int, value: str) -> str:
    """Keys or values behind those of earlier steps, which are an output too."""
    if call.has(place + 5):
        value = call.let("Concat", call.input(place + 5), value, axis=2)
    if call.wants(place):
        call.let("Identity", value, output=place)
    return value


def _by_heads(call: Call, value: str, shape: Sequence[int]) -> str:
    """[batch, places, heads * width] as [batch, heads, places, width]."""
    return call.let("Transpose", call.let("Reshape", value, call.whole(*shape)), perm=[0, 2, 1, 3])


def _attended(
    call: Call, found: tuple[str, str, str], added: Sequence[str], width: int, shape: Sequence[int]
) -> None:
    """The output, of queries, keys and values; `added`: to their scores; `width`: of a head of queries."""
    query, key, value = found
    scale = call.attribute("scale", 0.0) or width**-0.5
    scores = call.let("MatMul", query, call.let("Transpose", key, perm=[0, 1, 3, 2]))
    scores = call.let("Mul", scores, call.number(scale))
    for each in added:
        scores = call.let("Add", scores, each)
    seen = call.let("MatMul", call.let("Softmax", scores, axis=-1), value)
    back = call.let("Transpose", seen, perm=[0, 2, 1, 3])
    call.let("Reshape", back, call.whole(*shape), output=0)


def _hidden(call: Call, unseen: str) -> str:
    """What is added to scores, of ones where nothing is to be seen."""
    return call.let("Mul", unseen, call.number(call.attribute("mask_filter_value", _UNSEEN)))


def _later(call: Call, length: int, keys: int) -> str:
    """1 at places that are later than the query's, [queries, keys]; the last query's is the last key's."""
    ones = call.let("Expand", call.number(1.0), call.whole(length, keys))
    return call.let("Trilu", ones, call.let("Constant", value_int=keys - length + 1), upper=1)


def _unseen(call: Call, place: int, batch: int, keys: int) -> str:
    """1 at places that the mask at an input does not show, [batch, 1, 1 or queries, keys]."""
    shape = call.sizes(call.node.input[place])
    mask = call.input(place)
    if len(shape) == 1:
        places = call.let("Unsqueeze", call.whole(*range(keys)), call.whole(0))
        ends = call.let("Unsqueeze", call.let("Cast", mask, to=TensorProto.INT64), call.whole(1))
        unseen = call.let("GreaterOrEqual", places, ends)
        found = call.let("Cast", unseen, to=TensorProto.FLOAT)
    else:
        seen = call.let("Cast", mask, to=TensorProto.FLOAT)
        found = call.let("Sub", call.number(1.0), seen)
    return call.let("Reshape", found, call.whole(batch, 1, 1 if len(shape) < 3 else shape[1], keys))


def _rotary_embedding(call: Call) -> None:
    """Inputs: the value, places (or that of the first), tables of cosines and sines by place.

    Pairs of a head's numbers, halves of it or neighbours, are turned; numbers behind `rotary_embedding_dim` stay.
    """
    sizes, half = call.sizes(call.node.input[0]), call.sizes(call.node.input[2])[1]
    heads, turned = call.attribute("num_heads", 0), 2 * half
    if call.attribute("scale", 1.0) != 1.0 or call.attribute("is_packed_batching", 0):
        return
    if len(sizes) == 4:
        batch, heads, length, width = sizes
        value = call.let("Transpose", call.input(0), perm=[0, 2, 1, 3])
    else:
        batch, length, hidden = sizes
        width = hidden // heads if heads else turned
        value = call.let("Reshape", call.input(0), call.whole(batch, length, hidden // width, width))
    places = call.input(1)
    if call.sizes(call.node.input[1]) == (1,):
        steps = call.let("Unsqueeze", call.whole(*range(length)), call.whole(0))
        places = call.let("Add", steps, places)
    cosine, sine = (
        call.let("Unsqueeze", call.let("Gather", call.input(place), places), call.whole(2))
        for place in (2, 3)
    )
    if call.attribute("interleaved", 0):
        pairs = call.let("Reshape", _cut(call, value, 0, turned), call.whole(batch, length, -1, half, 2))
        first, second = (
            call.let("Squeeze", _cut(call, pairs, n, n + 1, axis=4), call.whole(4)) for n in (0, 1)
        )
    else:
        first, second = _cut(call, value, 0, half), _cut(call, value, half, turned)
    ahead = call.let("Sub", call.let("Mul", first, cosine), call.let("Mul", second, sine))
    behind = call.let("Add", call.let("Mul", second, cosine), call.let("Mul", first, sine))
    if call.attribute("interleaved", 0):
        ahead, behind = (call.let("Unsqueeze", part, call.whole(4)) for part in (ahead, behind))
        joined = call.let("Concat", ahead, behind, axis=4)
        found = call.let("Reshape", joined, call.whole(batch, length, -1, turned))
    else:
        found = call.let("Concat", ahead, behind, axis=3)
    if width > turned:
        found = call.let("Concat", found, _cut(call, value, turned, _LAST), axis=3)
    if len(sizes) == 4:
        call.let("Transpose", found, output=0, perm=[0, 2, 1, 3])
    else:
        call.let("Reshape", found, call.whole(*sizes), output=0)


def _cut(call: Call, value: str, start: int, end: int, axis: int = 3) -> str:
    return call.let("Slice", value, call.whole(start), call.whole(end), call.whole(axis))


ATTENTION: Definitions = {
    "Attention": _attention,
    "MultiHeadAttention": _multi_head_attention,
    "RotaryEmbedding": _rotary_embedding,
}
