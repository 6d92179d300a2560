"""Votes: which dimension of a value its producer and its readers would like to find innermost in memory.

Only the structure of the index expressions counts. In `sum x[n, ic, h + kh, w + kw] * weights[oc, ic, kh, kw]` the
output's innermost dimension should be oc, which the constant is indexed by (its values are packed for vectors of
output channels), and the input's should be ic, which is reduced, sits alone in its dimension and indexes the constant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from compiler.graph.ir import Compute, ComputeKind, Node, product_factors
from compiler.scalar import Guard, Load, loads


@dataclass(frozen=True, slots=True)
class Vote:
    """Dimension `dim` of `value` should be innermost. Strong: the other order costs a contraction its reuse."""

    value: str
    dim: int
    strong: bool


def votes(node: Node, constants: Mapping[str, Any]) -> Iterator[Vote]:
    """What a node wants for its output and its input; nothing where its structure does not tell."""
    match node.compute.kind:
        case ComputeKind.CONTRACTION if len(set(loads(node.compute.body))) > 1:
            yield from _contraction_votes(node, constants)
        case ComputeKind.CONTRACTION | ComputeKind.REDUCTION:  # a sum of squares is a window like any other
            yield from _window_votes(node, constants)
        case _:
            return


def _contraction_votes(node: Node, constants: Mapping[str, Any]) -> Iterator[Vote]:
    compute = node.compute
    factors = [f.inside if isinstance(f, Guard) else f for f in product_factors(compute.body) or ()]
    read = [f for f in factors if isinstance(f, Load)]
    fixed = _names([load for load in read if load.buffer in constants])
    moving = [load for load in read if load.buffer not in constants]
    channel = _channel(compute, fixed, _names(moving))
    if len(moving) != 1 or channel is None:
        return
    dim = _input_channel(moving[0], compute, compute.axes[channel].name, fixed)
    # A depthwise convolution has one channel of its own per output channel: nothing that a vector of them shares.
    own = {compute.axes[channel].name}
    long = {a.name for a in (*compute.axes, *compute.reduce_axes) if a.extent.constant != 1}
    strong = dim is None or moving[0].indices[dim].names() & long != own & long
    yield Vote(node.output, channel, strong)
    if dim is not None:
        yield Vote(moving[0].buffer, dim, strong)


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
    reduced = {a.name for a in compute.reduce_axes}
    for load in loads(compute.body):
        names = [index.names() for index in load.indices]
        if load.buffer in constants or not any(n & reduced and n & set(spatial) for n in names):
            continue
        kept = [d for d, index in enumerate(load.indices) if index.name in spatial]
        if kept:
            yield Vote(node.output, spatial.index(str(load.indices[kept[-1]].name)), strong=False)
            yield Vote(load.buffer, kept[-1], strong=False)


def _names(read: list[Load]) -> frozenset[str]:
    return frozenset(name for load in read for index in load.indices for name in index.names())


def _only(found: list[int]) -> int | None:
    return found[0] if len(found) == 1 else None
