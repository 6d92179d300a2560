"""Votes: which dimension of a value its producer and its readers would like to find innermost in memory.

Only the structure of the index expressions counts. In `sum x[n, ic, h + kh, w + kw] * weights[oc, ic, kh, kw]` the
output's innermost dimension should be oc, which the constant is indexed by (its values are packed for vectors of
output channels), and the input's should be ic, which is reduced, sits alone in its dimension and indexes the constant.
Where output channels are too few to fill vectors, places fill them: such a contraction prefers what lies along w, as
the model has it, but not strongly. A window of one place prefers channels, not strongly either where places fill
vectors too: with lanes along them it reads and writes channels as they are. What looks places up finds each element by
itself along them, and whole vectors along what it reads at its own place: in `y[n, c, p] = x[n, c, v[p], w[p]]` that
is c. A product of two values that are computed reads elements far from each other where its lanes are matrices that lie
beside each other: in `y[l, s, h] = sum a[l, h, n] * b[s, h, n]` s should be innermost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from compiler.graph.ir import Compute, ComputeKind, Graph, Node, product_factors
from compiler.index import FloorDiv, Index
from compiler.scalar import Guard, Load, loads, lookup_names
from compiler.symbol import Axis

LINE = 16
"""Elements of a vector, where no Target is known: what a line of the cache has in f32."""
FULLER = 1.25
"""How much fuller places make vectors than channels do, from where on they take the lanes."""
MUCH_FULLER = 1.6
"""The same where sums are so long that an algorithm of fewer multiplications may gain as much."""
FEW_LANES = 4
"""Elements along a dimension that lanes which are looked up one by one do not beat."""
AS_FULL = 0.9
"""The same from where on a product of channels at each place by itself runs as well with lanes along the places."""
LONG_SUM = 144
"""Products of such a sum, over windows of several places."""


@dataclass(frozen=True, slots=True)
class Vote:
    """Dimension `dim` of `value` should be innermost.

    Strong: the other order costs a contraction its reuse, or what looks places up its vectors (`looked_up`).
    """

    value: str
    dim: int
    strong: bool
    looked_up: bool = False


def votes(graph: Graph, node: Node) -> Iterator[Vote]:
    """What a node of a Graph wants for its output and its input; nothing where its structure does not tell."""
    constants = graph.constants
    looked_up = list(_lookup_votes(node, constants))
    if looked_up:
        yield from looked_up
        return
    match node.compute.kind:
        case ComputeKind.CONTRACTION if len(set(loads(node.compute.body))) > 1:
            yield from _contraction_votes(node, constants, fixed_size=node.output not in graph.open_values)
        case ComputeKind.CONTRACTION | ComputeKind.REDUCTION:  # a sum of squares is a window like any other
            yield from _window_votes(node, constants)
        case _:
            return


def _lookup_votes(node: Node, constants: Mapping[str, Any]) -> Iterator[Vote]:
    """For a value whose innermost dimension is looked up, as a whole at least, while another is read in order."""
    compute, looked_up = node.compute, lookup_names(node.compute.body)
    axes = {a.name: a for a in compute.axes}
    points = prod(a.size for a in (*compute.axes, *compute.reduce_axes)) if looked_up else 0
    for load in dict.fromkeys(loads(compute.body)) if looked_up else ():
        kept = [d for d, index in enumerate(load.indices) if index.name in axes]
        if load.buffer in constants or not kept or not load.indices[-1].looked_up():
            continue
        own = axes[str(load.indices[kept[-1]].name)]
        if any(own.name in looked_up[found.name] for index in load.indices for found in index.looked_up()):
            continue
        if own.size >= FEW_LANES and points >= prod(_extent(index, axes) for index in load.indices):
            yield Vote(load.buffer, kept[-1], strong=True, looked_up=True)
            yield Vote(node.output, compute.axes.index(own), strong=True, looked_up=True)


def _extent(index: Index, axes: Mapping[str, Axis]) -> int:
    """Elements of a dimension, as far as the index tells."""
    names = index.names() & axes.keys()
    return prod([axes[name].size for name in names] + [found.size for found in index.looked_up()])


def _contraction_votes(node: Node, constants: Mapping[str, Any], *, fixed_size: bool) -> Iterator[Vote]:
    compute = node.compute
    factors = [f.inside if isinstance(f, Guard) else f for f in product_factors(compute.body) or ()]
    read = [f for f in factors if isinstance(f, Load)]
    fixed = _names([load for load in read if load.buffer in constants])
    moving = [load for load in read if load.buffer not in constants]
    channel = _channel(compute, fixed, _names(moving))
    if len(moving) == len(factors) == 2:
        yield from _product_votes(node, moving[0], moving[1])
    if len(moving) != 1 or channel is None:
        return
    dim = _input_channel(moving[0], compute, compute.axes[channel].name, fixed)
    # A depthwise convolution has one channel of its own per output channel: nothing that a vector of them shares.
    own = {compute.axes[channel].name}
    long = {a.name for a in (*compute.axes, *compute.reduce_axes) if a.extent.constant != 1}
    strong = dim is None or moving[0].indices[dim].names() & long != own & long
    place = _place(compute, channel, moving[0])
    # Instructions multiply several whole numbers at once, which all lanes share.
    if strong and place is not None and compute.dtype.is_float:
        window, gain = _window(compute, channel, moving[0]), _gain(compute, channel, place, moving[0])
        is_long = window > 1 and prod(a.size for a in compute.reduce_axes) > LONG_SUM
        if gain >= (MUCH_FULLER if is_long else FULLER):
            yield Vote(node.output, place, strong=False)
            yield Vote(moving[0].buffer, len(moving[0].indices) - 1, strong=False)
            return
        # What is lowered once for all sizes has one order for all of them.
        either = (
            fixed_size and window == 1 and gain >= AS_FULL and _goes_along(compute, channel, place, moving[0])
        )
        strong = not either
    yield Vote(node.output, channel, strong)
    if dim is not None:
        yield Vote(moving[0].buffer, dim, strong)


def _product_votes(node: Node, one: Load, other: Load) -> Iterator[Vote]:
    """For an output whose innermost dimension both factors have, and not both of them innermost."""
    long = [(dim, a) for dim, a in enumerate(node.compute.axes) if a.extent.constant != 1]
    if not long or all(long[-1][1].name in load.indices[-1].names() for load in (one, other)):
        return
    apart = _names([one]) ^ _names([other])
    own = [dim for dim, a in long if a.name in apart and a.size >= FEW_LANES]
    if own and long[-1][1].name not in apart:
        yield Vote(node.output, own[-1], strong=True)


def _place(compute: Compute, channel: int, load: Load) -> int | None:
    """The axis of places along which what is read lies in memory: the last but for channels, where it is that."""
    last = len(compute.axes) - 1
    if channel != last:
        return last if compute.axes[last].name in load.indices[-1].names() else None
    return next((d for d, a in enumerate(compute.axes[:last]) if a.name == load.indices[-1].name), None)


def _window(compute: Compute, channel: int, load: Load) -> int:
    """Places that each output reads."""
    places = [a.name for d, a in enumerate(compute.axes) if d != channel]
    return prod(a.size for a in compute.reduce_axes if any(_moves_with(load, a.name, b) for b in places))


def _gain(compute: Compute, channel: int, place: int, load: Load) -> float:
    """How much fuller than along the channels vectors along a dimension of places are."""
    behind = compute.axes[channel + 1 :] if _window(compute, channel, load) == 1 else ()
    places = prod(a.size for a in behind or (compute.axes[place],))
    return _filled(places) / _filled(_columns(compute.axes[channel].name, compute.axes[channel].size, load))


def _goes_along(compute: Compute, channel: int, place: int, load: Load) -> bool:
    """Whether neighbouring places are read, and as the model has them written, side by side: none with a stride."""
    single = [index for index in load.indices if len(index.names()) == 1]
    steps = {index.coefficient(a.name) for index in single for a in compute.axes[channel + 1 :]}
    last = load.indices[-1].coefficient(compute.axes[place].name)
    return place == len(compute.axes) - 1 and last == 1 and steps <= {0, 1}


def _columns(channel: str, size: int, load: Load) -> int:
    """Output channels that share what is read: all, or those of one group."""
    atoms = [atom for index in load.indices for atom, _ in index.terms]
    groups = [a.divisor for a in atoms if isinstance(a, FloorDiv) and a.value.name == channel]
    return min((d for d in groups if isinstance(d, int)), default=size)


def _moves_with(load: Load, offset: str, place: str) -> bool:
    """Whether both walk along the same dimension: an offset in a window and where the window is."""
    return any({offset, place} <= index.names() for index in load.indices)


def _filled(size: int) -> float:
    """Share of the lanes of vectors along so many elements."""
    return size / (LINE * -(-size // LINE))


def _channel(compute: Compute, fixed: frozenset[str], moving: frozenset[str]) -> int | None:
    """The output axis of the constant: one that the other factor does not have, or (depthwise) shares."""
    shared = [i for i, a in enumerate(compute.axes) if a.name in fixed]
    own = [i for i in shared if compute.axes[i].name not in moving]
    return _only(own or shared)


def _input_channel(load: Load, compute: Compute, channel: str, fixed: frozenset[str]) -> int | None:
    depthwise = [d for d, index in enumerate(load.indices) if channel in index.names()]
    reduced = {a.name for a in compute.reduce_axes} & fixed
    return _only(depthwise or [d for d, index in enumerate(load.indices) if index.name in reduced])


def _window_votes(node: Node, constants: Mapping[str, Any]) -> Iterator[Vote]:
    compute = node.compute
    spatial = [a.name for a in compute.axes]
    for load in loads(compute.body):
        if load.buffer in constants or not any(_is_window(index, compute) for index in load.indices):
            continue
        kept = [d for d, index in enumerate(load.indices) if index.name in spatial]
        if kept:
            yield Vote(node.output, spatial.index(str(load.indices[kept[-1]].name)), strong=False)
            yield Vote(load.buffer, kept[-1], strong=False)


def _is_window(index: Index, compute: Compute) -> bool:
    """Whether offsets and places walk along a dimension together; not where it is split, and its parts are reduced."""
    return any(
        offset.name in index.names() and place.name in index.names() and not _are_digits(index, offset, place)
        for offset in compute.reduce_axes
        for place in compute.axes
    )


def _are_digits(index: Index, high: Axis, low: Axis) -> bool:
    """Whether one axis goes on where the other ends, so that no two places have an element in common."""
    step = abs(index.coefficient(low.name)) * low.size
    return low.size > 1 and 0 < step <= abs(index.coefficient(high.name))


def _names(read: list[Load]) -> frozenset[str]:
    return frozenset(name for load in read for index in load.indices for name in index.names())


def _only(found: list[int]) -> int | None:
    return found[0] if len(found) == 1 else None
