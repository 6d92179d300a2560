"""Small Workloads, one per kind of anchor, that the tests of the compiler share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce

import numpy as np

from compiler.dtype import DType
from compiler.index import Index, LookedUp
from compiler.scalar import Bound, Cast, Const, Expr, Guard, Load, Lookup, apply, rewrite
from compiler.scalar_ops import REDUCERS
from compiler.scalar_type import neutral
from compiler.symbol import Axis, axis
from compiler.workload.ir import Operand, Result, Stage, Workload


def at(*names: str | int | Index) -> tuple[Index, ...]:
    return tuple(Index.of(name) for name in names)


def operand(name: str, *shape: int, constant: bool = False) -> Operand:
    return Operand(name, at(*shape), DType.F32, constant)


def anchored(
    sizes: tuple[int, ...],
    reduce_sizes: tuple[int, ...],
    reducer: str,
    body: Expr,
    operands: tuple[Operand, ...],
    finish: Callable[[Expr], Expr] = lambda value: value,
) -> Workload:
    """An anchor over s0.. and r0.., and the map `finish` that stores to y0."""
    axes = tuple(axis(f"s{i}", size) for i, size in enumerate(sizes))
    reduce_axes = tuple(axis(f"r{i}", size) for i, size in enumerate(reduce_sizes))
    names = at(*(a.name for a in axes))
    anchor = Stage("anchor", axes, reduce_axes, reducer, body, "t0", names)
    epilogue = Stage("epilogue", axes, (), None, finish(Load("t0", names)), "y0", names)
    return Workload(operands, (operand("t0", *sizes),), (operand("y0", *sizes),), (anchor, epilogue))


def convolution(size: int, ic: int, oc: int, kernel: int, stride: int = 1) -> Workload:
    """Channels-last, with bias, residual and ReLU."""
    padded = (size - 1) * stride + kernel
    data = Load("x0", (Index.of("s0") * stride + "r0", Index.of("s1") * stride + "r1", Index.of("r2")))
    weights = Load("c0", at("s2", "r2", "r0", "r1"))

    def finish(value: Expr) -> Expr:
        biased = apply("add", value, Load("c1", at("s2")))
        return apply("max", apply("add", biased, Load("x1", at("s0", "s1", "s2"))), Const(0.0))

    operands = (
        operand("x0", padded, padded, ic),
        operand("x1", size, size, oc),
        operand("c0", oc, ic, kernel, kernel, constant=True),
        operand("c1", oc, constant=True),
    )
    body = apply("mul", data, weights)
    return anchored((size, size, oc), (kernel, kernel, ic), "sum", body, operands, finish)


def padded_convolution(size: int, ic: int, oc: int, kernel: int, stride: int = 1) -> Workload:
    """Channels-last, with zeros around the image, which are tested for."""
    pad = (kernel - 1) // 2
    rows = [Index.of(f"s{d}") * stride + f"r{d}" - pad for d in range(2)]
    inside = Load("x0", (*rows, Index.of("r2")))
    data = Guard(tuple(Bound(row, 0, size) for row in rows), inside, Const(0.0))
    body = apply("mul", data, Load("c0", at("s2", "r2", "r0", "r1")))
    operands = (operand("x0", size, size, ic), operand("c0", oc, ic, kernel, kernel, constant=True))
    out = (size + 2 * pad - kernel) // stride + 1
    return anchored((out, out, oc), (kernel, kernel, ic), "sum", body, operands)


def dilated(
    size: tuple[int, ...],
    ic: int,
    oc: int,
    taps: int,
    gaps: tuple[int, ...],
    *,
    pad: int = 0,
    images: tuple[int, ...] = (),
) -> Workload:
    """Channels-last, of data of that size: places of the window are `gaps` apart; `pad`: zeros on each side.

    `images`: axes of a batch in front.
    """
    first, ranks = len(images), range(len(size))
    rows = [Index.of(f"s{first + d}") + Index.of(f"r{d}") * gap - pad for d, gap in enumerate(gaps)]
    lead, channel, maps = at(*(f"s{d}" for d in range(first))), f"r{len(size)}", f"s{first + len(size)}"
    data: Expr = Load("x0", (*lead, *rows, Index.of(channel)))
    if pad:
        data = Guard(tuple(Bound(row, 0, n) for row, n in zip(rows, size, strict=True)), data, Const(0.0))
    body = apply("mul", data, Load("c0", at(maps, channel, *(f"r{d}" for d in ranks))))
    window = (taps,) * len(size)
    operands = (operand("x0", *images, *size, ic), operand("c0", oc, ic, *window, constant=True))
    out = (n + 2 * pad - gap * (taps - 1) for n, gap in zip(size, gaps, strict=True))
    return anchored((*images, *out, oc), (*window, ic), "sum", body, operands)


def embedding(size: int, ic: int, oc: int, kernel: int, stride: int | None = None) -> Workload:
    """Channels first, windows side by side, as of an image cut into patches; the result channels last.

    `stride`: from one window to the next, where they are not side by side.
    """
    step = kernel if stride is None else stride
    rows = [Index.of(f"s{d}") * step + f"r{d + 1}" for d in range(2)]
    body = apply("mul", Load("x0", (Index.of("r0"), *rows)), Load("c0", at("s2", "r0", "r1", "r2")))
    operands = (
        operand("x0", ic, (size - 1) * step + kernel, (size - 1) * step + kernel),
        operand("c0", oc, ic, kernel, kernel, constant=True),
    )
    return anchored((size, size, oc), (ic, kernel, kernel), "sum", body, operands)


def padded_line(size: int, ic: int, oc: int, taps: int, along: int) -> Workload:
    """Channels-last, a window along one of two dimensions, with zeros in front of it and behind."""
    place = [Index.of("s0"), Index.of("s1")]
    place[along] = place[along] + "r0" - taps // 2
    inside = Load("x0", (*place, Index.of("r1")))
    data = Guard((Bound(place[along], 0, size),), inside, Const(0.0))
    body = apply("mul", data, Load("c0", at("s2", "r1", "r0")))
    operands = (operand("x0", size, size, ic), operand("c0", oc, ic, taps, constant=True))
    return anchored((size, size, oc), (taps, ic), "sum", body, operands)


def grouped(size: int, groups: int, ic: int, oc: int) -> Workload:
    """A grouped 3x3 convolution: `ic` and `oc` channels in all."""
    per_in, per_out = ic // groups, oc // groups
    channel = (Index.of("s2") // per_out) * per_in + "r2"
    data = Load("x0", (Index.of("s0") + "r0", Index.of("s1") + "r1", channel))
    weights = Load("c0", at("s2", "r2", "r0", "r1"))
    operands = (operand("x0", size + 2, size + 2, ic), operand("c0", oc, per_in, 3, 3, constant=True))
    return anchored((size, size, oc), (3, 3, per_in), "sum", apply("mul", data, weights), operands)


def windowed(size: tuple[int, ...], ic: int, oc: int, taps: tuple[int, ...], *, stride: int = 1) -> Workload:
    """A convolution of any number of dimensions, channels last."""
    dimensions = range(len(size))
    window, channel = [f"r{d}" for d in dimensions], f"r{len(size)}"
    rows = (Index.of(f"s{d}") * stride + name for d, name in enumerate(window))
    maps = f"s{len(size)}"
    body = apply("mul", Load("x0", (*rows, *at(channel))), Load("c0", at(maps, channel, *window)))
    data = ((n - 1) * stride + r for n, r in zip(size, taps, strict=True))
    operands = (operand("x0", *data, ic), operand("c0", oc, ic, *taps, constant=True))
    return anchored((*size, oc), (*taps, ic), "sum", body, operands)


def enlarging(size: int, ic: int, oc: int) -> Workload:
    """A transposed 2x2 convolution with a stride of 2, channels first: the places of a phase are stored two apart."""
    places = tuple(Index.of(f"s{d}") for d in range(1, 5))
    data, weights = Load("x0", at("r0", "s1", "s3")), Load("c0", at("s0", "r0", "s2", "s4"))
    operands = (operand("x0", ic, size, size), operand("c0", oc, ic, 2, 2, constant=True))
    made = anchored((oc, size, 2, size, 2), (ic,), "sum", apply("mul", data, weights), operands)
    anchor, epilogue = made.stages
    indices = (Index.of("s0"), places[0] * 2 + places[1], places[2] * 2 + places[3])
    stages = (anchor, replace(epilogue, target_indices=indices))
    return replace(made, outputs=(operand("y0", oc, 2 * size, 2 * size),), stages=stages)


def row_convolution(
    size: int, ic: int, oc: int, taps: int, *, stride: int = 1, beside: int | None = None
) -> Workload:
    """Along one dimension, channels last; `beside`: so many rows of an image, and taps with a dimension of 1."""
    lead = () if beside is None else (beside,)
    first = len(lead)
    place, n = (Index.of(f"s{first + d}") for d in range(2))
    rows = at(*(f"s{d}" for d in range(first)))
    data = Load("x0", (*rows, place * stride + "r0", *at("r1")))
    weights = Load("c0", (n, *at("r1", *(0 for _ in lead), "r0")))
    operands = (
        operand("x0", *lead, (size - 1) * stride + taps, ic),
        operand("c0", oc, ic, *(1 for _ in lead), taps, constant=True),
    )
    return anchored((*lead, size, oc), (taps, ic), "sum", apply("mul", data, weights), operands)


def grouped_apart(
    size: int, groups: int, per_in: int, per_out: int, *, images: int | None = None
) -> Workload:
    """The same with an axis for the groups, as models give it; `images`: an axis in front."""
    lead = () if images is None else (images,)
    first = len(lead)
    h, w, g, n = (Index.of(f"s{first + d}") for d in range(4))
    channel = g * per_in + "r2"
    data = Load("x0", (*at(*(f"s{d}" for d in range(first))), h + "r0", w + "r1", channel))
    weights = Load("c0", (g * per_out + n, *at("r2", "r0", "r1")))
    operands = (
        operand("x0", *lead, size + 2, size + 2, groups * per_in),
        operand("c0", groups * per_out, per_in, 3, 3, constant=True),
    )
    body = apply("mul", data, weights)
    return anchored((*lead, size, size, groups, per_out), (3, 3, per_in), "sum", body, operands)


def depthwise(
    size: int, channels: int, stride: int = 1, kernel: int = 3, activation: str | None = None
) -> Workload:
    """`activation`: a function of one argument that follows, instead of a clip."""
    padded = (size - 1) * stride + kernel
    data = Load("x0", (Index.of("s0") * stride + "r0", Index.of("s1") * stride + "r1", Index.of("s2")))
    weights = Load("c0", at("s2", 0, "r0", "r1"))
    constant = operand("c0", channels, 1, kernel, kernel, constant=True)
    operands = (operand("x0", padded, padded, channels), constant)

    def finish(value: Expr) -> Expr:
        if activation is not None:
            return apply(activation, value)
        return apply("min", apply("max", value, Const(0.0)), Const(6.0))

    product = apply("mul", data, weights)
    return anchored((size, size, channels), (kernel, kernel), "sum", product, operands, finish)


def depthwise_gated(size: int, channels: int, parts: int = 2, kernel: int = 3) -> Workload:
    """The channels in so many parts, multiplied by each other: an element of the output is of several sums."""
    data = Load("x0", (Index.of("s0") + "r0", Index.of("s1") + "r1", Index.of("s2") * channels + "s3"))
    weights = Load("c0", (Index.of("s2") * channels + "s3", *at(0, "r0", "r1")))
    constant = operand("c0", parts * channels, 1, kernel, kernel, constant=True)
    operands = (operand("x0", size + kernel - 1, size + kernel - 1, parts * channels), constant)
    body = apply("mul", data, weights)
    made = anchored((size, size, parts, channels), (kernel, kernel), "sum", body, operands)
    anchor, epilogue = made.stages
    sums = [Load(anchor.target, at("s0", "s1", part, "s3")) for part in range(parts)]
    gated = replace(
        epilogue,
        axes=tuple(a for a in epilogue.axes if a.name != "s2"),
        body=reduce(lambda a, b: apply("mul", a, b), sums),
        target_indices=at("s0", "s1", "s3"),
    )
    return replace(made, outputs=(operand("y0", size, size, channels),), stages=(anchor, gated))


def matmul(m: int, n: int, k: int, *, constant: bool = True) -> Workload:
    """`constant`: the second operand is [n, k] and known; else it is [k, n] and an input."""
    second = Load("c0", at("s1", "r0")) if constant else Load("x1", at("r0", "s1"))
    right = operand("c0", n, k, constant=True) if constant else operand("x1", k, n)
    body = apply("mul", Load("x0", at("s0", "r0")), second)
    return anchored((m, n), (k,), "sum", body, (operand("x0", m, k), right))


def places_last(places: int, ic: int, oc: int) -> Workload:
    """Products at each place, where places lie side by side: a convolution with a window of one, as models write it."""
    body = apply("mul", Load("x0", at("r0", "s1")), Load("c0", at("s0", "r0")))
    operands = (operand("x0", ic, places), operand("c0", oc, ic, constant=True))
    return anchored((oc, places), (ic,), "sum", body, operands)


def second_matrix(m: int, n: int, k: int) -> Workload:
    """With the second of two matrices that are one constant, as the weights of two directions of a recurrence are."""
    body = apply("mul", Load("x0", at("s0", "r0")), Load("c0", at(1, "s1", "r0")))
    return anchored((m, n), (k,), "sum", body, (operand("x0", m, k), operand("c0", 2, n, k, constant=True)))


def product(batch: int, m: int, n: int, k: int, *, turned: str = "") -> Workload:
    """A batch of products of two inputs; `turned`: which of the operands x0 and x1 are stored transposed."""
    left, right = (
        ("r0", "s1") if "x0" in turned else ("s1", "r0"),
        ("s2", "r0") if "x1" in turned else ("r0", "s2"),
    )
    sizes = {"s1": m, "s2": n, "r0": k}
    body = apply("mul", Load("x0", at("s0", *left)), Load("x1", at("s0", *right)))
    operands = (
        operand("x0", batch, *(sizes[name] for name in left)),
        operand("x1", batch, *(sizes[name] for name in right)),
    )
    return anchored((batch, m, n), (k,), "sum", body, operands)


def max_pool(size: int, channels: int) -> Workload:
    """3x3, stride 2, padding 1 by a guard."""
    return windows(size, channels, taps=3, stride=2, reducer="max", outside=float("-inf"))


def windows(
    size: int,
    channels: int,
    taps: int = 3,
    stride: int = 1,
    dilation: int = 1,
    reducer: str = "sum",
    outside: float = 0.0,
) -> Workload:
    """Square windows of a square image, padded by a guard so that stride 1 keeps its size."""
    reach = (taps - 1) * dilation // 2
    row, column = (
        Index.of(s) * stride + Index.of(r) * dilation - reach for s, r in (("s0", "r0"), ("s1", "r1"))
    )
    bounds = (Bound(row, 0, size), Bound(column, 0, size))
    body = Guard(bounds, Load("x0", (row, column, Index.of("s2"))), Const(outside))
    out = (size - 1) // stride + 1
    return anchored((out, out, channels), (taps, taps), reducer, body, (operand("x0", size, size, channels),))


def mean(points: int, channels: int) -> Workload:
    def finish(value: Expr) -> Expr:
        return apply("mul", value, Const(1.0 / points))

    return anchored(
        (channels,), (points,), "sum", Load("x0", at("r0", "s0")), (operand("x0", points, channels),), finish
    )


def row_sum(rows: int, columns: int) -> Workload:
    """A reduction along the contiguous dimension."""
    return anchored((rows,), (columns,), "sum", Load("x0", at("s0", "r0")), (operand("x0", rows, columns),))


def lstm_cell(batch: int, hidden: int, inputs: int) -> Workload:
    """One contraction with the gates i, o, f, c as blocks; cell state y0 and hidden state y1 in one pass."""
    b, g, j, k = axis("s0", batch), axis("s1", 4), axis("s2", hidden), axis("r0", inputs)
    weights = Load("c0", (Index.of("s1") * hidden + "s2", Index.of("r0")))
    product = apply("mul", Load("x0", at("s0", "r0")), weights)
    anchor = Stage("anchor", (b, g, j), (k,), "sum", product, "t0", at("s0", "s1", "s2"))

    def gate(op: str, block: int) -> Expr:
        bias = Load("c1", (Index.of("s2") + block * hidden,))
        return apply(op, apply("add", Load("t0", at("s0", block, "s2")), bias))

    here = at("s0", "s2")
    kept = apply("mul", gate("sigmoid", 2), Load("x1", here))
    state = apply("add", kept, apply("mul", gate("sigmoid", 0), gate("tanh", 3)))
    output = Result(apply("mul", gate("sigmoid", 1), apply("tanh", state)), "y1", here)
    epilogue = Stage("epilogue", (b, j), (), None, state, "y0", here, also=(output,))
    operands = (
        operand("x0", batch, inputs),
        operand("x1", batch, hidden),
        operand("c0", 4 * hidden, inputs, constant=True),
        operand("c1", 4 * hidden, constant=True),
    )
    outputs = operand("y0", batch, hidden), operand("y1", batch, hidden)
    return Workload(operands, (operand("t0", batch, 4, hidden),), outputs, (anchor, epilogue))


def with_second_output(workload: Workload, finish: Callable[[Expr], Expr]) -> Workload:
    """A Workload that stores a function of its output as well."""
    *stages, last = workload.stages
    also = Result(finish(last.body), "y1", last.target_indices)
    outputs = (*workload.outputs, replace(workload.outputs[0], name="y1"))
    return replace(workload, outputs=outputs, stages=(*stages, replace(last, also=(also,))))


def mapped(body: Expr, sizes: tuple[int, ...], operands: tuple[Operand, ...]) -> Workload:
    axes = tuple(axis(f"s{i}", size) for i, size in enumerate(sizes))
    stage = Stage("map", axes, (), None, body, "y0", at(*(a.name for a in axes)))
    return Workload(operands, (), (operand("y0", *sizes),), (stage,))


def add_relu(rows: int, columns: int) -> Workload:
    names = at("s0", "s1")
    body = apply("max", apply("add", Load("x0", names), Load("x1", names)), Const(0.0))
    return mapped(body, (rows, columns), (operand("x0", rows, columns), operand("x1", rows, columns)))


def transpose(rows: int, columns: int) -> Workload:
    return mapped(Load("x0", at("s1", "s0")), (rows, columns), (operand("x0", columns, rows),))


def looked_up(name: str, extent: int, index: Expr, read: Callable[[Index], Expr]) -> Lookup:
    """What `read` makes of the place that an index means."""
    found = LookedUp(name, extent)
    return Lookup(found, index, read(Index.of(found)))


def scattered_sum(
    count: int, rows: int, columns: int, reducer: str = "sum", *, apart: bool = False
) -> Workload:
    """Updates added to the rows that they look up, and what was there; `apart`: each column looks up its own."""
    axes = (axis("s0", rows), axis("s1", columns))
    found = LookedUp("v0", rows)
    there = (Bound(Index.of("s0") - Index.of(found), 0, 1),)
    here = Guard(there, Load("x1", at("r0", "s1")), neutral(reducer, DType.F32))
    asked = Load("x0", at("r0", "s1") if apart else at("r0"))
    total = Stage(
        "total", axes, (axis("r0", count),), reducer, Lookup(found, asked, here), "t0", at("s0", "s1")
    )
    both = apply(REDUCERS[reducer].op, Load("x2", at("s0", "s1")), Load("t0", at("s0", "s1")))
    places = integers("x0", count, columns) if apart else integers("x0", count)
    operands = (places, operand("x1", count, columns), operand("x2", rows, columns))
    return chain(operands, total, Stage("sum", axes, (), None, both, "y0", at("s0", "s1")))


def integers(name: str, *shape: int, dtype: DType = DType.I64) -> Operand:
    return Operand(name, at(*shape), dtype)


def gather_rows(rows: int, columns: int, count: int) -> Workload:
    """Rows of a table, and something added to them."""

    def row(place: Index) -> Expr:
        return Load("x1", (place, Index.of("s1")))

    body = looked_up("v0", rows, Load("x0", at("s0")), row)
    operands = (integers("x0", count), operand("x1", rows, columns), operand("x2", count, columns))
    return mapped(apply("add", body, Load("x2", at("s0", "s1"))), (count, columns), operands)


def gather_elements(rows: int, columns: int) -> Workload:
    """Each lane looks another row up, with indices of 32 bits."""

    def element(place: Index) -> Expr:
        return Load("x1", (place, Index.of("s1")))

    body = looked_up("v0", 17, Load("x0", at("s0", "s1")), element)
    operands = (integers("x0", rows, columns, dtype=DType.I32), operand("x1", 17, columns))
    return mapped(body, (rows, columns), operands)


def gather_pairs(count: int, columns: int) -> Workload:
    """Two indices a row, one of them read from a place that the other one says; a guard on what they mean."""

    def cell(first: Index) -> Expr:
        def read(second: Index) -> Expr:
            inside = Load("x2", (first, second, Index.of("s1")))
            return Guard((Bound(first, 1, 4),), inside, Const(0.5))

        return looked_up("v1", 6, Load("x1", (first, Index.of("s0"))), read)

    body = looked_up("v0", 5, Load("x0", at("s0")), cell)
    operands = (integers("x0", count), integers("x1", 5, count), operand("x2", 5, 6, columns))
    return mapped(body, (count, columns), operands)


def gathered_sum(rows: int, columns: int, reduced: int) -> Workload:
    """A sum of table rows, as of a bag of words; the map after it looks a scale up."""

    def row(place: Index) -> Expr:
        return Load("x1", (place, Index.of("s1")))

    def finish(value: Expr) -> Expr:
        scale = looked_up("v1", 9, Load("x2", at("s1")), lambda place: Load("c0", (place,)))
        return apply("mul", value, scale)

    operands = (
        integers("x0", rows, reduced),
        operand("x1", 23, columns),
        integers("x2", columns),
        operand("c0", 9, constant=True),
    )
    body = looked_up("v0", 23, Load("x0", at("s0", "r0")), row)
    return anchored((rows, columns), (reduced,), "sum", body, operands, finish)


def chain(operands: tuple[Operand, ...], *stages: Stage) -> Workload:
    """Stages that share axes by name; the last one stores y0, the others a temporary each."""
    temporaries = tuple(operand(s.target, *(a.size for a in s.axes)) for s in stages[:-1])
    return Workload(operands, temporaries, (operand("y0", *(a.size for a in stages[-1].axes)),), stages)


def row_stage(
    name: str, sizes: tuple[int, ...], body: Expr, target: str, reducer: str | None = None, reduced: int = 0
) -> Stage:
    """Over s0, s1, ... of the sizes; the last `reduced` of them are reduced."""
    axes = tuple(axis(f"s{i}", size) for i, size in enumerate(sizes))
    kept = axes[: len(axes) - reduced]
    return Stage(
        name, kept, axes[len(kept) :], reducer, body, target, at(*(a.name for a in kept)), dtype=DType.F32
    )


def softmax(rows: int, columns: int) -> Workload:
    """Three stages along the rows; the exponential is stored."""
    sizes, both = (rows, columns), at("s0", "s1")
    distance = apply("at_most", apply("sub", Load("x0", both), Load("t0", at("s0"))), Const(0.0))
    return chain(
        (operand("x0", rows, columns),),
        row_stage("largest", sizes, Load("x0", both), "t0", "largest", 1),
        row_stage("power", sizes, apply("exp", distance), "t1"),
        row_stage("total", sizes, Load("t1", both), "t2", "sum", 1),
        row_stage("share", sizes, apply("div", Load("t1", both), Load("t2", at("s0"))), "y0"),
    )


def layer_norm(rows: int, columns: int) -> Workload:
    """Mean, deviation, and the map that uses both."""
    sizes, both, row = (rows, columns), at("s0", "s1"), at("s0")
    centred = apply("sub", Load("x0", both), Load("t1", row))
    variance = apply("mul", Load("t2", row), Const(1.0 / columns))
    deviation = apply("div", Const(1.0), apply("sqrt", apply("add", variance, Const(1e-5))))
    scaled = apply("mul", apply("mul", centred, Load("t3", row)), Load("c0", at("s1")))
    return chain(
        (operand("x0", rows, columns), operand("c0", columns, constant=True)),
        row_stage("sum", sizes, Load("x0", both), "t0", "sum", 1),
        row_stage("mean", (rows,), apply("mul", Load("t0", row), Const(1.0 / columns)), "t1"),
        row_stage("squares", sizes, apply("mul", centred, centred), "t2", "sum", 1),
        row_stage("deviation", (rows,), deviation, "t3"),
        row_stage("scaled", sizes, scaled, "y0"),
    )


def instance_norm(batch: int, points: int, channels: int) -> Workload:
    """Channels-last: neighbouring rows, not columns, are contiguous. The shifted values are read twice."""
    batch_axis, point, channel = (axis(f"s{i}", n) for i, n in enumerate((batch, points, channels)))
    both, every = at("s0", "s2"), at("s0", "s1", "s2")

    def reduction(name: str, body: Expr, target: str) -> Stage:
        return Stage(name, (batch_axis, channel), (point,), "sum", body, target, both)

    def over(name: str, axes: tuple[Axis, ...], body: Expr, target: str) -> Stage:
        return Stage(name, axes, (), None, body, target, at(*(a.name for a in axes)))

    shifted = apply("sub", Load("x0", every), apply("mul", Load("t0", both), Const(1.0 / points)))
    square = apply("mul", Load("t1", every), Load("t1", every))
    deviation = apply("sqrt", apply("add", apply("mul", Load("t2", both), Const(1.0 / points)), Const(1e-5)))
    return chain(
        (operand("x0", batch, points, channels), operand("c0", channels, constant=True)),
        reduction("sum", Load("x0", every), "t0"),
        over("shifted", (batch_axis, point, channel), shifted, "t1"),
        reduction("squares", square, "t2"),
        over("deviation", (batch_axis, channel), deviation, "t3"),
        over(
            "scaled",
            (batch_axis, point, channel),
            apply("mul", apply("div", Load("t1", every), Load("t3", both)), Load("c0", at("s2"))),
            "y0",
        ),
    )


def turned(points: int, rows: int, lanes: int) -> Workload:
    """The row axis that is contiguous in memory is not the last one of the results: what is left of a transpose."""
    lane, row, point = axis("s0", lanes), axis("s1", rows), axis("s2", points)
    both, everywhere = at("s0", "s1"), at("s0", "s1", "s2")
    x = Load("x0", at("s2", "s1", "s0"))
    mean = apply("mul", Load("t0", both), Const(1.0 / points))
    return chain(
        (operand("x0", points, rows, lanes),),
        Stage("sum", (lane, row), (point,), "sum", x, "t0", both),
        Stage("mean", (lane, row), (), None, mean, "t1", both),
        Stage("shifted", (lane, row, point), (), None, apply("sub", x, Load("t1", both)), "y0", everywhere),
    )


def centred(points: int) -> Workload:
    """One row that is all there is: x minus its largest element."""
    one, point = axis("s0", 1), axis("s1", points)
    largest = Stage("largest", (one,), (point,), "max", Load("x0", at("s1")), "t0", at(0))
    body = apply("sub", Load("x0", at("s1")), Load("t0", at(0)))
    return chain(
        (operand("x0", points),), largest, Stage("centred", (point,), (), None, body, "y0", at("s1"))
    )


KINDS: dict[str, Workload] = {
    "convolution": convolution(7, 12, 37, 3),
    "convolution_strided": convolution(5, 3, 20, 3, 2),
    "convolution_padded": padded_convolution(6, 3, 12, 5),
    "convolution_of_blocks": padded_convolution(24, 3, 5, 3),
    "pointwise": convolution(9, 27, 50, 1),
    "places_last": places_last(70, 27, 20),
    "grouped": grouped(6, 3, 12, 18),
    "groups_of_four": grouped(6, 6, 24, 24),
    "groups_apart": grouped_apart(6, 3, 4, 6),
    "volume": windowed((3, 4, 6), 3, 5, (3, 3, 3)),
    "enlarging": enlarging(19, 33, 3),
    "depthwise": depthwise(7, 35),
    "depthwise_strided": depthwise(6, 16, 2),
    "matmul": matmul(13, 53, 37),
    "matmul_dynamic": matmul(9, 33, 21, constant=False),
    "matrix_vector": matmul(1, 70, 29),
    "second_matrix": second_matrix(3, 70, 29),
    "product_of_turned": product(2, 9, 21, 12, turned="x0 x1"),
    "max_pool": max_pool(11, 19),
    "window_sum": windows(11, 19),
    "window_sum_dilated": windows(9, 21, dilation=2),
    "mean": mean(49, 45),
    "row_sum": row_sum(11, 37),
    "softmax": softmax(7, 45),
    "softmax_swept": softmax(40, 21),
    "layer_norm": layer_norm(5, 37),
    "instance_norm": instance_norm(2, 9, 45),
    "centred": centred(77),
    "add_relu": add_relu(7, 45),
    "lstm_cell": lstm_cell(5, 21, 13),
    "matmul_twice": with_second_output(matmul(13, 53, 37), lambda value: apply("tanh", value)),
    "add_relu_twice": with_second_output(add_relu(7, 45), lambda value: apply("neg", value)),
    "transpose": transpose(10, 23),
    "gather_rows": gather_rows(31, 45, 9),
    "gather_elements": gather_elements(6, 21),
    "gather_pairs": gather_pairs(11, 19),
    "gathered_sum": gathered_sum(7, 26, 5),
    "scattered_rows": scattered_sum(23, 9, 21),
    "scattered_elements": scattered_sum(11, 7, 12, "max", apart=True),
}


def retyped(workload: Workload, dtype: DType) -> Workload:
    """The same work on elements of another floating-point type."""

    def typed(operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
        return tuple(replace(o, dtype=dtype) if o.dtype.is_float else o for o in operands)

    def retype(e: Expr) -> Expr | None:
        match e:
            case Const(value, DType(is_float=True)):
                return Const(value, dtype)
            case Cast(value, DType(is_float=True)):
                return Cast(value, dtype)
            case _:
                return None

    bodies = (stage.rewritten(lambda body: rewrite(body, retype)) for stage in workload.stages)
    stages = tuple(replace(stage, dtype=dtype) if stage.dtype.is_float else stage for stage in bodies)
    buffers = (typed(workload.operands), typed(workload.temporaries), typed(workload.outputs))
    return Workload(*buffers, stages)


def random_operands(workload: Workload, seed: int = 0) -> dict[str, np.ndarray]:
    """Normal floats; integers from far out of the range of any index to far beyond, most of them in it."""
    rng = np.random.default_rng(seed)
    return {o.name: _random(rng, o) for o in workload.operands}


def _random(rng: np.random.Generator, operand: Operand) -> np.ndarray:
    values = rng.standard_normal(operand.sizes)
    return (
        (values * 10).astype(operand.dtype.numpy)
        if operand.dtype.is_integer
        else values.astype(operand.dtype.numpy)
    )
