"""NonMaxSuppression: the best box of each class is taken again and again, and with it go those that overlap it.

It is a Loop of ONNX's own operators; what it took is then chosen from what it tried, in the order of the classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np
import onnx
import onnx.parser

from compiler.frontend.call import Array, Lowering, OperatorCall
from compiler.frontend.functions import nodes_of

_CORNERS = "y0 = Min (a, c) x0 = Min (b, d) y1 = Max (a, c) x1 = Max (b, d)"
_CENTRES = """
    half_width = Mul (c, half) half_height = Mul (d, half)
    x0 = Sub (a, half_width) y0 = Sub (b, half_height) x1 = Add (a, half_width) y1 = Add (b, half_height)
"""
_FUNCTION = """
<opset_import: ["" : 18], domain: "luthier">
suppress (boxes, scores, steps, overlap, threshold, numbers, least, none, half, last, two) => (found)
{
    a, b, c, d = Split <axis = -1, num_outputs = 4> (boxes)
    SIDES
    left = Transpose <perm = [0, 2, 1]> (x0)
    top = Transpose <perm = [0, 2, 1]> (y0)
    right = Transpose <perm = [0, 2, 1]> (x1)
    bottom = Transpose <perm = [0, 2, 1]> (y1)
    width = Sub (right, left)
    height = Sub (bottom, top)
    area_ = Mul (width, height)
    like = Shape (scores)
    lefts = Expand (left, like)
    tops = Expand (top, like)
    rights = Expand (right, like)
    bottoms = Expand (bottom, like)
    areas = Expand (area_, like)
    rest, which, valid = Loop (steps, , scores) <
        body = step (int64 i, bool go, float s) => (bool again, float kept, int64 box, bool good) {
        again = Identity (go)
        best = ArgMax <axis = 2, keepdims = 1> (s)
        score = ReduceMax <keepdims = 1> (s, last)
        taken = Greater (score, threshold)
        l = GatherElements <axis = 2> (lefts, best)
        t = GatherElements <axis = 2> (tops, best)
        r = GatherElements <axis = 2> (rights, best)
        m = GatherElements <axis = 2> (bottoms, best)
        own = GatherElements <axis = 2> (areas, best)
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
        box = Squeeze (best, last)
        good = Squeeze (taken, last)
    }>
    tried = Transpose <perm = [1, 2, 0]> (which)
    goods = Transpose <perm = [1, 2, 0]> (valid)
    places = NonZero (goods)
    rows = Transpose <perm = [1, 0]> (places)
    chosen = GatherND (tried, rows)
    end = Unsqueeze (chosen, last)
    start, behind = Split <axis = 1> (rows, two)
    found = Concat <axis = 1> (start, end)
}
"""


@cache
def _function(sides: str) -> onnx.FunctionProto:
    return onnx.parser.parse_function(_FUNCTION.replace("SIDES", sides))


def _suppress(call: OperatorCall) -> None:
    boxes, scores = call.shape(0), call.shape(1)
    if len(boxes) != 3 or len(scores) != 3 or boxes != (scores[0], scores[2], 4):
        call.reject(f"has boxes of shape {list(boxes)} and scores of shape {list(scores)}")
    most = int(call.constant(2).reshape(-1)[0]) if call.has(2) else 0
    steps = min(most, boxes[1])
    if steps < 1 or 0 in scores:
        return call.emit_constant(np.zeros((0, 3), np.int64))
    least = np.asarray(-np.inf, np.float32)
    constants: dict[str, Array] = {
        "steps": np.asarray(steps, np.int64),
        "numbers": np.arange(boxes[1], dtype=np.int64),
        "least": least,
        "none": np.zeros((), np.float32),
        "half": np.asarray(0.5, np.float32),
        "last": np.asarray([-1], np.int64),
        "two": np.asarray([2, 1], np.int64),
    }
    names = {name: call.intermediate_constant(array, name) for name, array in constants.items()}
    names |= {"boxes": call.proto.input[0], "scores": call.proto.input[1]}
    # Without a threshold every box counts but those that are gone.
    names["overlap"] = call.proto.input[3] if call.has(3) else names["none"]
    names["threshold"] = call.proto.input[4] if call.has(4) else names["least"]
    function = _function(_CENTRES if call.integer("center_point_box") else _CORNERS)
    names["found"] = call.proto.output[0]
    opsets = {entry.domain: entry.version for entry in function.opset_import}
    call.expand(nodes_of(function, names, call.builder), opsets)
    return None


LOWERINGS: Mapping[str, Lowering] = {"NonMaxSuppression": _suppress}
