"""Random networks of several operators, whose values are read again and again, cut, joined and turned around."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import helper

from tests.compiler.frontend.models import model
from tests.compiler.random_models import LAYERS

Dims = tuple[int, ...]

_MOST_ELEMENTS = 4096
_MOST_OF_LAYERS = 2**20
_MOST_SCORES = 2**24
_MOST_STEPS = 12


@dataclass
class Network:
    """Nodes so far, and the shape of every value that may be read.

    `first`: the first axis that an operator may change; 1 where axis 0 is a batch of any size.
    `layers`: axes have sizes of layers, not those that a test runs quickly.
    """

    draw: st.DrawFn
    first: int = 0
    layers: bool = False
    shapes: dict[str, Dims] = field(default_factory=dict)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)

    def some(self, values: list[Any]) -> Any:
        return self.draw(st.sampled_from(values))

    def extent(self, high: int, low: int = 1) -> int:
        return self.draw(st.integers(low, high))

    def size(self, high: int, low: int = 1) -> int:
        """Of an axis of data: up to `high` in a small network."""
        return self.some([n for n in LAYERS if n >= low]) if self.layers else self.extent(high, low)

    def axis(self, shape: Dims) -> int:
        return self.extent(len(shape) - 1, self.first)

    def broadcast(self, shape: Dims) -> list[str]:
        """Values that can be combined with one of this shape; of a batch only those that have it too."""
        least = len(shape) if self.first else 0
        return [v for v, other in self.shapes.items() if len(other) >= least and _broadcasts(other, shape)]

    def constant(self, *shape: int) -> str:
        random = np.random.default_rng(len(self.constants))
        return self.table(
            (random.standard_normal(shape) / np.sqrt(max(1, prod(shape[1:])))).astype(np.float32)
        )

    def table(self, values: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(values)
        return name

    def whole(self, *numbers: int) -> str:
        return self.table(np.array(numbers, np.int64))

    def node(self, operator: str, shape: Dims, *names: str, **attributes: Any) -> str:
        output = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(names), [output], **attributes))
        self.shapes[output] = shape
        return output


def _broadcasts(small: Dims, large: Dims) -> bool:
    tail = large[len(large) - len(small) :] if len(small) <= len(large) else ()
    return len(tail) == len(small) and all(n in (1, m) for n, m in zip(small, tail, strict=True))


Step = Callable[[Network, str, Dims], object]
"""Adds an operator that reads a value of some shape, where it can."""


def _map(b: Network, x: str, shape: Dims) -> None:
    b.node(b.some(["Relu", "Sigmoid", "Tanh", "Neg", "Abs", "Gelu", "HardSwish", "Identity"]), shape, x)


def _pair(b: Network, x: str, shape: Dims) -> None:
    fitting = b.broadcast(shape)
    constant = b.constant(*(b.some([n, 1]) for n in shape[b.axis(shape) :]))
    b.node(b.some(["Add", "Mul", "Sub", "Max"]), shape, x, b.some([*fitting, constant]))


def _join(b: Network, x: str, shape: Dims) -> None:
    axis = b.axis(shape)
    fitting = [
        v
        for v, other in b.shapes.items()
        if len(other) == len(shape)
        and other[:axis] == shape[:axis]
        and other[axis + 1 :] == shape[axis + 1 :]
    ]
    parts = [x, *(b.some(fitting) for _ in range(b.extent(2)))]
    b.draw(st.randoms(use_true_random=False)).shuffle(parts)
    total = sum(b.shapes[p][axis] for p in parts)
    b.node("Concat", (*shape[:axis], total, *shape[axis + 1 :]), *parts, axis=axis)


def _cut(b: Network, x: str, shape: Dims) -> None:
    axis = b.axis(shape)
    start = b.some([0, 0, b.extent(shape[axis] - 1, 0)])
    end, step = b.extent(shape[axis], start + 1), b.some([1, 1, 1, 2])
    left = len(range(start, end, step))
    tables = (b.whole(start), b.whole(end), b.whole(axis), b.whole(step))
    b.node("Slice", (*shape[:axis], left, *shape[axis + 1 :]), x, *tables)


def _graft(b: Network, x: str, shape: Dims) -> None:
    """One end of a value, before or behind what is made of the value or of its other end."""
    axis = b.axis(shape)
    if shape[axis] == 1:
        return
    place, tables = b.extent(shape[axis] - 1), b.whole(axis)
    sizes = [(*shape[:axis], n, *shape[axis + 1 :]) for n in (place, shape[axis] - place)]
    head = b.node("Slice", sizes[0], x, b.whole(0), b.whole(place), tables)
    tail = b.node("Slice", sizes[1], x, b.whole(place), b.whole(shape[axis]), tables)
    (end, left), (other, right) = b.some(
        [((head, sizes[0]), (tail, sizes[1])), ((tail, sizes[1]), (head, sizes[0]))]
    )
    source, right = b.some([(x, shape), (other, right)])
    made = b.node(b.some(["Neg", "Relu", "Abs"]), right, source)
    total = left[axis] + right[axis]
    parts = b.some([(end, made), (made, end)])
    b.node("Concat", (*shape[:axis], total, *shape[axis + 1 :]), *parts, axis=axis)


def _split(b: Network, x: str, shape: Dims) -> None:
    axis = b.axis(shape)
    if shape[axis] == 1:
        return
    first = b.extent(shape[axis] - 1)
    names = [f"v{len(b.nodes)}", f"v{len(b.nodes)}b"]
    sizes = first, shape[axis] - first
    b.nodes.append(helper.make_node("Split", [x, b.whole(*sizes)], names, axis=axis))
    for name, size in zip(names, sizes, strict=True):
        b.shapes[name] = (*shape[:axis], size, *shape[axis + 1 :])


def _turn(b: Network, x: str, shape: Dims) -> None:
    perm = [*range(b.first), *b.draw(st.permutations(range(b.first, len(shape))))]
    b.node("Transpose", tuple(shape[p] for p in perm), x, perm=perm)


def _reshape(b: Network, x: str, shape: Dims) -> None:
    """Two neighbouring dimensions become one, or one becomes two."""
    place = b.axis(shape)
    if place > b.first and b.some([True, False]):
        new = (*shape[: place - 1], shape[place - 1] * shape[place], *shape[place + 1 :])
    else:
        factor = b.some([n for n in (1, 2, 3, 4) if shape[place] % n == 0])
        new = (*shape[:place], factor, shape[place] // factor, *shape[place + 1 :])
    if len(new) <= 5:
        b.node("Reshape", new, x, b.whole(*([0] * b.first), *new[b.first :]))


def _project(b: Network, x: str, shape: Dims) -> None:
    wide = b.size(20)
    b.node("MatMul", (*shape[:-1], wide), x, b.constant(shape[-1], wide))


def _attend(b: Network, x: str, shape: Dims) -> None:
    """Scores of rows with rows, a softmax, and the rows by their weights."""
    if len(shape) < 2 + b.first:
        return
    *batch, rows, width = shape
    if prod(batch) * rows * rows > _MOST_SCORES:
        return
    order = [*range(len(batch)), len(batch) + 1, len(batch)]
    turned = b.node("Transpose", (*batch, width, rows), x, perm=order)
    scores = b.node("MatMul", (*batch, rows, rows), x, turned)
    b.node("MatMul", shape, b.node("Softmax", (*batch, rows, rows), scores, axis=-1), x)


def _convolve(b: Network, x: str, shape: Dims) -> None:
    if len(shape) not in (3, 4) or min(shape[2:]) < 3:
        return
    rank, channels = len(shape) - 2, shape[1]
    groups = b.some([1, 1, channels])
    out, kernel, stride, pad = (
        groups * (b.size(8) if groups == 1 else b.extent(8 // groups or 1)),
        b.some([1, 3]),
        b.extent(2),
        b.extent(1, 0),
    )
    pad = pad if kernel > 1 else 0
    image = tuple((n + 2 * pad - kernel) // stride + 1 for n in shape[2:])
    weights = b.constant(out, channels // groups, *[kernel] * rank)
    attributes = {"strides": [stride] * rank, "pads": [pad] * 2 * rank, "group": groups}
    b.node("Conv", (shape[0], out, *image), x, weights, b.constant(out), **attributes)


def _pool(b: Network, x: str, shape: Dims) -> None:
    if len(shape) not in (3, 4) or min(shape[2:]) < 2:
        return
    rank = len(shape) - 2
    image = tuple((n - 2) // 2 + 1 for n in shape[2:])
    kind = b.some(["MaxPool", "AveragePool"])
    b.node(kind, (*shape[:2], *image), x, kernel_shape=[2] * rank, strides=[2] * rank)


def _reduce(b: Network, x: str, shape: Dims) -> None:
    axes = sorted(b.draw(st.sets(st.integers(b.first, len(shape) - 1), min_size=1, max_size=2)))
    keep = b.some([0, 1, 1])
    left = tuple(1 if d in axes else n for d, n in enumerate(shape) if keep or d not in axes)
    if left:
        kind = b.some(["ReduceSum", "ReduceMean", "ReduceMax"])
        b.node(kind, left, x, b.whole(*axes), keepdims=keep)


def _normalise(b: Network, x: str, shape: Dims) -> None:
    if b.some([True, False]):
        b.node("Softmax", shape, x, axis=b.axis(shape))
    elif shape[-1] > 2:
        width = shape[-1]
        b.node("LayerNormalization", shape, x, b.constant(width), b.constant(width), epsilon=0.01)


def _pad(b: Network, x: str, shape: Dims) -> None:
    pads = [b.some([0, 0, 1, 2]) if i % len(shape) >= b.first else 0 for i in range(2 * len(shape))]
    new = tuple(n + p + q for n, p, q in zip(shape, pads[: len(shape)], pads[len(shape) :], strict=True))
    b.node("Pad", new, x, b.whole(*pads))


def _pick(b: Network, x: str, shape: Dims) -> None:
    axis = b.axis(shape)
    places = b.draw(st.lists(st.integers(0, shape[axis] - 1), min_size=1, max_size=6))
    b.node("Gather", (*shape[:axis], len(places), *shape[axis + 1 :]), x, b.whole(*places), axis=axis)


def _enlarge(b: Network, x: str, shape: Dims) -> None:
    if len(shape) == 4:
        n, c, h, w = shape
        b.node(
            "Resize", (n, c, 2 * h, 2 * w), x, "", b.table(np.array([1, 1, 2, 2], np.float32)), mode="nearest"
        )


def _rescale(b: Network, x: str, shape: Dims) -> None:
    """A normalisation by constants, or of each image by itself."""
    if len(shape) not in (3, 4):
        return
    scale, bias = b.constant(shape[1]), b.constant(shape[1])
    if b.some([True, False]):
        spread = b.table(np.abs(b.constants[scale]) + np.float32(0.5))
        b.node("BatchNormalization", shape, x, scale, bias, b.constant(shape[1]), spread)
    elif prod(shape[2:]) > 2:
        b.node("InstanceNormalization", shape, x, scale, bias, epsilon=0.01)


def _gate(b: Network, x: str, shape: Dims) -> None:
    """Channels are scaled by what is made of their means."""
    if len(shape) != 4:
        return
    n, c, _, _ = shape
    mean = b.node("GlobalAveragePool", (n, c, 1, 1), x)
    mixed = b.node("Conv", (n, c, 1, 1), mean, b.constant(c, c, 1, 1))
    b.node("Mul", shape, x, b.node("Sigmoid", (n, c, 1, 1), mixed))


def _choose(b: Network, x: str, shape: Dims) -> None:
    other = b.some(b.broadcast(shape))
    test = f"t{len(b.nodes)}"
    b.nodes.append(helper.make_node(b.some(["Greater", "LessOrEqual"]), [x, b.constant(shape[-1])], [test]))
    b.node("Where", shape, test, x, other)


def _repeat(b: Network, x: str, shape: Dims) -> None:
    times = [b.some([1, 1, 2]) if d >= b.first else 1 for d in range(len(shape))]
    b.node("Tile", tuple(n * t for n, t in zip(shape, times, strict=True)), x, b.whole(*times))


def _widen(b: Network, x: str, shape: Dims) -> None:
    """A transposed convolution, or channels that become places."""
    if len(shape) != 4:
        return
    n, c, h, w = shape
    if c % 4 == 0 and b.some([True, False]):
        mode = b.some(["DCR", "CRD"])
        b.node("DepthToSpace", (n, c // 4, 2 * h, 2 * w), x, blocksize=2, mode=mode)
        return
    out, kernel = b.size(4), b.some([2, 3])
    image = (2 * (h - 1) + kernel, 2 * (w - 1) + kernel)
    b.node("ConvTranspose", (n, out, *image), x, b.constant(c, out, kernel, kernel), strides=[2, 2])


def _accumulate(b: Network, x: str, shape: Dims) -> None:
    b.node("CumSum", shape, x, b.table(np.int64(b.axis(shape))))


def _power(b: Network, x: str, shape: Dims) -> None:
    b.node("Pow", shape, x, b.table(np.float32(b.some([2.0, 3.0]))))


def _rank(b: Network, x: str, shape: Dims) -> None:
    """Where the largest element of each row is, which is read there."""
    axis = b.axis(shape)
    left = (*shape[:axis], 1, *shape[axis + 1 :])
    place = f"t{len(b.nodes)}"
    b.nodes.append(helper.make_node("ArgMax", [x], [place], axis=axis, keepdims=1))
    b.node("GatherElements", left, x, place, axis=axis)


STEPS: Mapping[str, tuple[int, Step]] = {
    "map": (3, _map),
    "pair": (4, _pair),
    "join": (3, _join),
    "cut": (3, _cut),
    "graft": (3, _graft),
    "split": (2, _split),
    "turn": (3, _turn),
    "reshape": (2, _reshape),
    "project": (3, _project),
    "attend": (1, _attend),
    "convolve": (4, _convolve),
    "pool": (1, _pool),
    "reduce": (2, _reduce),
    "normalise": (2, _normalise),
    "pad": (1, _pad),
    "pick": (1, _pick),
    "enlarge": (1, _enlarge),
    "rescale": (2, _rescale),
    "gate": (1, _gate),
    "choose": (1, _choose),
    "repeat": (1, _repeat),
    "widen": (1, _widen),
    "accumulate": (1, _accumulate),
    "power": (1, _power),
    "rank": (1, _rank),
}
"""How often each is drawn, and what it does."""

_DRAWN = [name for name, (weight, _) in STEPS.items() for _ in range(weight)]


@st.composite
def networks(draw: st.DrawFn, *, batch: bool = False, layers: bool = False) -> onnx.ModelProto:
    """A network with one input and one to three outputs; `batch`: for any number of rows; `layers`: of real sizes."""
    b = Network(draw, first=int(batch), layers=layers)
    most = _MOST_OF_LAYERS if layers else _MOST_ELEMENTS
    rank = b.some([2, 3, 4, 4])
    given: Dims = (b.extent(2), *(b.size(9, 2) for _ in range(rank - 1)))
    while prod(given) > most:
        given = tuple(-(-n // 2) for n in given)
    b.shapes["x"] = given
    for _ in range(b.extent(_MOST_STEPS, 3)):
        small = [v for v, s in b.shapes.items() if prod(s) <= most and len(s) > b.first]
        # What is new is read more often, so that chains form.
        value = b.some([*small, *small[-3:], small[-1]])
        STEPS[b.some(_DRAWN)][1](b, value, b.shapes[value])
    computed = [v for v in b.shapes if v != "x"] or [b.node("Relu", given, "x")]
    outputs = list(dict.fromkeys([computed[-1], *(b.some(computed) for _ in range(b.extent(2, 0)))]))
    declared: list[int | str | None] = ["batch", *given[1:]] if batch else list(given)
    return model(b.nodes, {"x": declared}, b.constants, outputs)
