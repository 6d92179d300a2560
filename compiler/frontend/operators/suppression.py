"""NonMaxSuppression: the best box of each class is taken again and again, and with it go those that overlap it.

It is a Loop of ONNX's own operators over the boxes that some class likes; it ends when no class has one left. What it
took is then chosen from what it tried, in the order of the classes.

Where many more boxes are liked than may be taken, only the best ones of each class are looked at: these are as many
for every image, and so is their code. All are looked at where a class has none left of its best ones, but of others.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np
import onnx
import onnx.parser

from compiler.frontend.call import Array, Lowering, OperatorCall
from compiler.frontend.functions import nodes_of

_FEW = 256
"""Boxes that are not sorted out before: finding out how many count takes longer."""
_FEWEST, _PER_STEP = 64, 2
"""Boxes of a class that are looked at first: so many, or so many for each that may be taken."""
_MANY = 4
"""How many times as many boxes there are where that is done."""
_LEAST = 2
"""Boxes that stay in any case, so that there are never none, and never one that is repeated where others are not."""
_CORNERS = "y0 = Min (a, c) x0 = Min (b, d) y1 = Max (a, c) x1 = Max (b, d)"
_CENTRES = """
    half_width = Mul (c, half) half_height = Mul (d, half)
    x0 = Sub (a, half_width) y0 = Sub (b, half_height) x1 = Add (a, half_width) y1 = Add (b, half_height)
"""
_ALL = "near = Identity (boxes) likely = Identity (liked)"
_LIKELY = """
    some = Or (above, anyway)
    whole = NonZero (some)
    places = Squeeze (whole, first)
    near = Gather <axis = 1> (boxes, places)
    likely = Gather <axis = 2> (liked, places)
"""
_STEP = """
        best = ArgMax <axis = 2, keepdims = 1> (s)
        score = GatherElements <axis = 2> (s, best)
        taken = Greater (score, threshold)
        box = Squeeze (best, last)
        good = Squeeze (taken, last)
        number = Cast <to = 6> (good)
        most = ReduceMax <keepdims = 0> (number)
        again = Cast <to = 9> (most)
        OWN
        l1 = Max (l, lefts)
        t1 = Max (t, tops)
        r1 = Min (r, rights)
        m1 = Min (m, bottoms)
        w = Sub (r1, l1)
        h = Sub (m1, t1)
        w1 = Max (w, none)
        h1 = Max (h, none)
        common = Mul (w1, h1)
        both = Add (own, areas)
        union = Sub (both, common)
        share = Mul (union, overlap)
        covered = Greater (common, share)
        same = Equal (best, numbers)
        gone = Or (covered, same)
        kept = Where (gone, least, s)
"""
_OF_ALL = """
        l_ = GatherElements <axis = 1> (left, box)
        t_ = GatherElements <axis = 1> (top_, box)
        r_ = GatherElements <axis = 1> (right, box)
        m_ = GatherElements <axis = 1> (bottom, box)
        own_ = GatherElements <axis = 1> (area, box)
        l = Unsqueeze (l_, last)
        t = Unsqueeze (t_, last)
        r = Unsqueeze (r_, last)
        m = Unsqueeze (m_, last)
        own = Unsqueeze (own_, last)
"""
_OF_FIRST = """
        l = GatherElements <axis = 2> (lefts, best)
        t = GatherElements <axis = 2> (tops, best)
        r = GatherElements <axis = 2> (rights, best)
        m = GatherElements <axis = 2> (bottoms, best)
        own = GatherElements <axis = 2> (areas, best)
"""
_SEARCH = """
    rest, which, valid = Loop (steps, , CANDIDATES) <
        body = step (int64 i, bool go, float s) => (bool again, float kept, int64 box, bool good) {STEP}>
    found_shape = Shape (which)
    ended = Gather (found_shape, first)
    left_over = Sub (steps, ended)
    behind_ = Concat <axis = 0> (none_before, left_over, none_behind)
    which_ = Pad (which, behind_)
    valid_ = Pad (valid, behind_)
    tried_ = Transpose <perm = [1, 2, 0]> (which_)
    goods = Transpose <perm = [1, 2, 0]> (valid_)
"""
_CHOSEN = """
    rows_ = NonZero (goods)
    rows = Transpose <perm = [1, 0]> (rows_)
    chosen = GatherND (tried, rows)
    end = Unsqueeze (chosen, last)
    start, behind = Split <axis = 1> (rows, two)
    found = Concat <axis = 1> (start, end)
"""
_AMONG_ALL = """
    LIKELY
    GEOMETRY
    sizes = Shape (area)
    size = Gather (sizes, one)
    lefts = Unsqueeze (left, middle)
    tops = Unsqueeze (top_, middle)
    rights = Unsqueeze (right, middle)
    bottoms = Unsqueeze (bottom, middle)
    areas = Unsqueeze (area, middle)
    numbers = Range (zero, size, one)
    SEARCH
    tried = PLACES (tried_)
    CHOSEN
"""
_AMONG_FIRST = """
    highest, order = TopK <axis = 2> (liked, counted)
    ordered = Unsqueeze (order, last)
    near = GatherND <batch_dims = 1> (boxes, ordered)
    GEOMETRY
    lefts = Identity (left)
    tops = Identity (top_)
    rights = Identity (right)
    bottoms = Identity (bottom)
    areas = Identity (area)
    numbers = Identity (firsts)
    SEARCH
    tried = GatherElements <axis = 2> (order, tried_)
    is_taken = Cast <to = 6> (goods)
    taken_of = ReduceSum <keepdims = 0> (is_taken, last)
    is_counted = Cast <to = 6> (is_liked)
    counted_of = ReduceSum <keepdims = 0> (is_counted, last)
    wanted = Cast <to = 6> (steps)
    held = Cast <to = 6> (counted)
    wants = Less (taken_of, wanted)
    has_more = Greater (counted_of, held)
    is_open = And (wants, has_more)
    open_ = Cast <to = 6> (is_open)
    most_open = ReduceMax <keepdims = 0> (open_)
    ran_out = Cast <to = 9> (most_open)
    found = If (ran_out) <
        then_branch = of_all () => (int64 found) {ALL},
        else_branch = of_first () => (int64 found) {CHOSEN}>
"""
_ABOVE = """
    top = ReduceMax <keepdims = 0> (liked, batch_and_class)
    above = Greater (top, threshold)
"""
_BY_COUNT = """
    is_above = Cast <to = 6> (above)
    size = ReduceSum <keepdims = 0> (is_above, first)
    is_many = Greater (size, enough)
    found = If (is_many) <
        then_branch = of_many () => (int64 found) {FIRST},
        else_branch = of_few () => (int64 found) {ALL}>
"""
_GEOMETRY = """
    a, b, c, d = Split <axis = -1, num_outputs = 4> (near)
    SIDES
    left = Squeeze (x0, last)
    top_ = Squeeze (y0, last)
    right = Squeeze (x1, last)
    bottom = Squeeze (y1, last)
    width = Sub (right, left)
    height = Sub (bottom, top_)
    area = Mul (width, height)
"""
_FUNCTION = """
<opset_import: ["" : 18], domain: "luthier">
suppress (boxes, scores, steps, overlap, threshold, anyway, least, none, half, zero, one, first, middle, last, two,
          batch_and_class, none_before, none_behind, counted, enough, firsts) => (found)
{
    is_liked = Greater (scores, threshold)
    liked = Where (is_liked, scores, least)
    FOUND
}
"""


@cache
def _function(sides: str, *, filtered: bool, by_count: bool) -> onnx.FunctionProto:
    found = _AMONG_ALL.replace("SEARCH", _search("likely", _OF_ALL)).replace("CHOSEN", _CHOSEN)
    found = found.replace("LIKELY", _LIKELY if filtered else _ALL)
    if by_count:
        first = _AMONG_FIRST.replace("SEARCH", _search("highest", _OF_FIRST)).replace("CHOSEN", _CHOSEN)
        found = (_BY_COUNT.replace("FIRST", first) if filtered else first).replace("ALL", found)
    found = (_ABOVE if filtered else "") + found
    text = _FUNCTION.replace("FOUND", found).replace("GEOMETRY", _GEOMETRY.replace("SIDES", sides))
    return onnx.parser.parse_function(
        text.replace("PLACES (", "Gather (places, " if filtered else "Identity (")
    )


def _search(candidates: str, own: str) -> str:
    return _SEARCH.replace("CANDIDATES", candidates).replace("STEP", _STEP.replace("OWN", own))


def _suppress(call: OperatorCall) -> None:
    boxes, scores = call.shape(0), call.shape(1)
    if len(boxes) != 3 or len(scores) != 3 or boxes != (scores[0], scores[2], 4):
        call.reject(f"has boxes of shape {list(boxes)} and scores of shape {list(scores)}")
    most = int(call.constant(2).reshape(-1)[0]) if call.has(2) else 0
    steps = min(most, boxes[1])
    if steps < 1 or 0 in scores:
        return call.emit_constant(np.zeros((0, 3), np.int64))
    # A box that no class likes has no part in it. Two stay, whatever they are: less is no size like others.
    known = call.builder.constants.get(call.value(4)) if call.has(4) else None
    filtered = call.has(4) and boxes[1] > _FEW and (known is None or bool((known > 0).any()))
    count = max(_FEWEST, _PER_STEP * steps)
    by_count = boxes[1] >= _MANY * count
    constants: dict[str, Array] = {
        "steps": np.asarray(steps, np.int64),
        "anyway": np.arange(boxes[1]) < _LEAST,
        "least": np.asarray(-np.inf, np.float32),
        "none": np.zeros((), np.float32),
        "half": np.asarray(0.5, np.float32),
        "zero": np.asarray(0, np.int64),
        "one": np.asarray(1, np.int64),
        "first": np.asarray([0], np.int64),
        "middle": np.asarray([1], np.int64),
        "last": np.asarray([-1], np.int64),
        "two": np.asarray([2, 1], np.int64),
        "batch_and_class": np.asarray([0, 1], np.int64),
        "none_before": np.zeros(3, np.int64),
        "none_behind": np.zeros(2, np.int64),
        "counted": np.asarray([count], np.int64),
        "enough": np.asarray(_MANY * count, np.int32),
        "firsts": np.arange(count),
    }
    names = {name: call.intermediate_constant(array, name) for name, array in constants.items()}
    names |= {"boxes": call.proto.input[0], "scores": call.proto.input[1]}
    # Without a threshold every box counts but those that are gone.
    names["overlap"] = call.proto.input[3] if call.has(3) else names["none"]
    names["threshold"] = call.proto.input[4] if call.has(4) else names["least"]
    sides = _CENTRES if call.integer("center_point_box") else _CORNERS
    function = _function(sides, filtered=filtered, by_count=by_count)
    names["found"] = call.proto.output[0]
    opsets = {entry.domain: entry.version for entry in function.opset_import}
    call.expand(nodes_of(function, names, call.builder), opsets)
    return None


LOWERINGS: Mapping[str, Lowering] = {"NonMaxSuppression": _suppress}
