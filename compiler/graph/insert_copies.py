"""Insert copies: values of the model's interface that the inside wants to lie differently in memory.

    conv(guard(image))     →  image@stored = image; conv(guard(image@stored))       (a halo, the inside's layout)
    pool(image)            →  image@stored = image; pool(image@stored)              (lanes side by side)
    conv(image[2i])        →  image@stored[i] = image[2i]; conv(image@stored[i])    (only what is read)
    logits = conv(...)     →  logits@stored = conv(...); logits = logits@stored     (the interface is row-major)

An output that is a constant (all of it was folded) becomes a copy of that constant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod

from compiler.graph.assign_layouts import assign_layouts, wished_layouts
from compiler.graph.halo import zero_halos, zero_padded
from compiler.graph.ir import Compute, Graph, Node, TensorType
from compiler.graph.layout_votes import votes
from compiler.graph.rename import fresh_names, with_reads_renamed
from compiler.index import Index
from compiler.scalar import Expr, Load, loads, rewrite, walk
from compiler.symbol import axis
from compiler.target import PAGE_BYTES

WAYS = 12
"""Lines that share a set of the first cache, at most, on today's CPUs."""


@dataclass(frozen=True, slots=True)
class InsertCopies:
    """Static extents only. Names of inputs and outputs stay; the inside's value gets the new name."""

    name: str = "insert-copies"

    def run(self, graph: Graph) -> Graph:
        """Copies of inputs come first, copies into outputs last."""
        return _copy_outputs(_copy_inputs(graph))


def _copy_inputs(graph: Graph) -> Graph:
    halos, across = zero_halos(graph), _across(graph)
    read = {value for values in across.values() for value in values}
    wanted = [value for value in graph.inputs if value in halos or value in read]
    if not wanted:
        return graph
    types = graph.types()
    names = _new_names(graph, wanted)
    renamed = []
    for node in graph.nodes:
        own = {value: names[value] for value in across.get(node.output, ())}
        renamed.append(with_reads_renamed(node, _padded(node, types, names) | own))
    steps = {new: _steps(renamed, new) for value, new in names.items() if value not in halos}
    copies = [_copy(value, new, types[value], steps.get(new)) for value, new in names.items()]
    return graph.with_nodes((*copies, *(_with_steps_taken(node, steps) for node in renamed)))


def _steps(nodes: Iterable[Node], copy: str) -> tuple[int, ...]:
    """By dimension the elements from one that is read to the next, where all who read the copy agree."""
    read = [load for node in nodes for load in loads(node.compute.body) if load.buffer == copy]
    places = zip(*(load.indices for load in read), strict=True)
    return tuple(steps.pop() if len(steps) == 1 else 1 for steps in (set(map(_step, p)) for p in places))


def _step(index: Index) -> int:
    """That of a multiple of one axis, else 1."""
    match index.terms:
        case ((str(), int(step)),) if index.const == 0 and step > 0:
            return step
        case _:
            return 1


def _with_steps_taken(node: Node, steps: Mapping[str, tuple[int, ...]]) -> Node:
    """The node reading copies that have only what is read."""

    def taken(expr: Expr) -> Expr | None:
        if not isinstance(expr, Load) or expr.buffer not in steps:
            return None
        pairs = zip(expr.indices, steps[expr.buffer], strict=True)
        return replace(expr, indices=tuple(Index.of(i.terms[0][0]) if step > 1 else i for i, step in pairs))

    body = rewrite(node.compute.body, taken)
    return node if body is node.compute.body else replace(node, compute=replace(node.compute, body=body))


def _across(graph: Graph) -> dict[str, list[str]]:
    """By node, the inputs of the model in which windows, a depthwise convolution or lookups would find lanes far apart.

    So they do where the inside wants another dimension innermost: then a copy costs less than each window's gathering.
    A contraction reads elements across well, unless they are pages apart; and where it skips some, a copy is small.
    """
    layouts, types, found = assign_layouts(graph), graph.types(), dict[str, list[str]]()
    for node in graph.nodes:
        cast = list(votes(graph, node))
        along = {vote.dim for vote in cast if vote.value == node.output}
        agreed = not along.isdisjoint(layouts[node.output].order[-1:])
        for vote in cast:
            closed = vote.value not in graph.open_values
            skips = closed and _skips(node, vote.value)
            apart = closed and _crowd(types[vote.value], vote.dim)
            if vote.strong and not (vote.looked_up or skips or apart):
                continue
            across = skips or vote.dim != len(types[vote.value].shape) - 1
            if vote.value in graph.inputs and across and (agreed or vote.looked_up):
                found.setdefault(node.output, []).append(vote.value)
    return found


def _skips(node: Node, value: str) -> bool:
    """Whether a node reads only some of the elements along a dimension, at even distances."""
    read = [load for load in loads(node.compute.body) if load.buffer == value]
    return any(_step(index) > 1 for load in read for index in load.indices)


def _crowd(kind: TensorType, dim: int) -> bool:
    """Whether neighbours along a dimension lie whole pages apart, and drive each other out of any first cache.

    Its sets are found by the bits of an address within a page.
    """
    apart = prod(kind.sizes[dim + 1 :]) * kind.dtype.size_bytes
    return apart % PAGE_BYTES == 0 and kind.sizes[dim] > WAYS


def _padded(node: Node, types: Mapping[str, TensorType], names: Mapping[str, str]) -> dict[str, str]:
    if node.compute.reducer is None:
        return {}
    padded = [zero_padded(expr, types) for expr in walk(node.compute.body)]
    return {load.buffer: names[load.buffer] for load in padded if load is not None and load.buffer in names}


def _copy_outputs(graph: Graph) -> Graph:
    wishes = wished_layouts(graph)
    inner = [value for value in graph.outputs if value not in graph.inputs]
    moved = [value for value in inner if value in graph.constants or not wishes[value].is_plain]
    if not moved:
        return graph
    types = graph.types()
    names = _new_names(graph, moved)
    nodes = [with_reads_renamed(node, names) for node in graph.nodes]
    renamed = [replace(node, output=names.get(node.output, node.output)) for node in nodes]
    constants = {names.get(value, value): array for value, array in graph.constants.items()}
    copies = [_copy(new, value, types[value]) for value, new in names.items()]
    return graph.with_nodes((*renamed, *copies), constants)


def _new_names(graph: Graph, values: Iterable[str]) -> dict[str, str]:
    return {value: next(fresh_names(graph, f"{value}@stored")) for value in values}


def _copy(source: str, target: str, kind: TensorType, steps: tuple[int, ...] | None = None) -> Node:
    """`steps`: by dimension, from one element that is copied to the next."""
    steps = steps or (1,) * len(kind.shape)
    axes = tuple(
        axis(f"a{i}", extent if step == 1 else -(-size // step))
        for i, (extent, size, step) in enumerate(zip(kind.shape, kind.sizes, steps, strict=True))
    )
    body = Load(source, tuple(Index.of(a.name) * step for a, step in zip(axes, steps, strict=True)))
    return Node(f"copy of {source}", target, Compute(axes, (), None, body, kind.dtype))
