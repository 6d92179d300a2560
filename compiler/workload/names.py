"""Names of Workloads for people, from their structure alone.

    conv 3x3 64->64 @56x56 /2 +add+max      sum over a window and input channels; output extents; stride; epilogue
    dwconv 3x3 96 @112x112 +add             one filter a channel
    gconv 3x3 128->128 g32 @28x28           grouped
    matmul 197x64x768, matmul 12*197x64x197 rows x reduced x columns, after the batch; a transposed convolution whose
                                            outputs of a stride have the same inputs has them as columns
    window max 3x3 64 @56x56 /2             pooling
    reduce sum 49 -> 2048                   any other reduction
    map add+max 3136x64, map gather 128x768, copy 224x224x3     no reduction

They need not be unique: the digest is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from compiler.dtype import DType
from compiler.graph.ir import product_factors
from compiler.index import FloorDiv, Index, Mod
from compiler.scalar import Apply, Expr, Guard, Load, Lookup, children
from compiler.workload.ir import Stage, Workload, stage_loads

_MOST_OPERATIONS = 6


def describe(workload: Workload) -> str:
    """One line; axes that were not merged yet read better (see `compiler.workload.partition`)."""
    stage = workload.anchor
    if stage.reducer is None:
        return _map_name(stage) + _dtype(stage)
    factors = product_factors(stage.body) if stage.reducer == "sum" else None
    head = _reduction_name(stage) if factors is None else _contraction_name(stage, factors, workload)
    tail = [
        op
        for other in workload.stages
        if other is not stage
        for result in other.results
        for op in _operations(result.body)
    ]
    return head + (f" +{_join(tail)}" if tail else "") + _dtype(stage)


def _map_name(stage: Stage) -> str:
    operations = [op for result in stage.results for op in _operations(result.body)]
    head = f"map {_join(operations)}" if operations else "copy"
    return f"{head} {_sizes(stage, stage.ranges)}"


def _reduction_name(stage: Stage) -> str:
    reduced = {a.name for a in stage.reduce_axes}
    spatial = [a.name for a in stage.axes]
    indices = [index for load in stage_loads(stage) for index in load.indices]
    mixed = {n for i in indices if i.names() & reduced for n in i.names() if n in spatial}
    over = _sizes(stage, reduced)
    if not mixed:
        return f"reduce {stage.reducer} {over} -> {_sizes(stage, spatial)}"
    kept = [n for n in spatial if n not in mixed]
    place = [n for n in spatial if n in mixed]
    stride = _stride(indices, place)
    return f"window {stage.reducer} {over} {_sizes(stage, kept)} @{_sizes(stage, place)}{stride}"


def _contraction_name(stage: Stage, factors: tuple[Load | Guard, ...], workload: Workload) -> str:
    constants = {o.name for o in workload.operands if o.constant}
    read = [e for f in factors for e in (f, *children(f)) if isinstance(e, Load)]
    fixed = [load for load in read if load.buffer in constants]
    weights = fixed[0] if fixed else read[-1]
    data = next((load for load in read if load is not weights), weights)
    if _is_convolution(stage, weights, fixed):
        return _convolution_name(stage, data, weights, workload.buffers[weights.buffer].sizes)
    return _matmul_name(stage, data, weights)


def _is_convolution(stage: Stage, weights: Load, fixed: list[Load]) -> bool:
    """Constant weights of rank 3 or more that only their first dimension connects to the output."""
    spatial = {a.name for a in stage.axes}
    return (
        len(fixed) == 1
        and len(weights.indices) > 2
        and not any(index.names() & spatial for index in weights.indices[1:])
    )


def _convolution_name(stage: Stage, data: Load, weights: Load, sizes: tuple[int, ...]) -> str:
    channel = weights.indices[0].names()
    place = [a.name for a in stage.axes if a.name not in channel]
    kernel = "x".join(map(str, sizes[2:]))
    tail = f"@{_sizes(stage, place)}{_stride(data.indices, place)}"
    groups = _groups(data, channel, sizes[0])
    if groups == 1:
        return f"conv {kernel} {sizes[1]}->{sizes[0]} {tail}"
    if groups == sizes[0] and sizes[1] == 1:
        return f"dwconv {kernel} {sizes[0]} {tail}"
    return f"gconv {kernel} {sizes[1] * groups}->{sizes[0]} g{groups} {tail}"


def _groups(data: Load, channel: frozenset[str], channels: int) -> int:
    """How many groups of output channels read different input channels."""
    for index in data.indices:
        if not channel & index.names():
            continue
        quotients = [atom for atom, _ in index.terms if isinstance(atom, FloorDiv)]
        divisors = [q.divisor for q in quotients if isinstance(q.divisor, int)]
        return channels // divisors[0] if divisors else channels
    return 1


def _matmul_name(stage: Stage, left: Load, right: Load) -> str:
    a, b = _names(left.indices), _names(right.indices)
    spatial = [x.name for x in stage.axes]
    parted = {n: d for n in spatial if (d := _parted(left, right, n)) is not None}
    batch = [n for n in spatial if n in a and n in b and n not in parted]
    rows = [n for n in spatial if n in a and n not in b]
    columns = [n for n in spatial if n not in a]
    inner = [x.name for x in stage.reduce_axes]
    sizes = [math.prod(stage.ranges[n] for n in names) for names in (rows, inner, columns)]
    sizes[0] *= math.prod(stage.ranges[n] // d for n, d in parted.items())
    sizes[2] *= math.prod(parted.values())
    count = math.prod(stage.ranges[n] for n in batch)
    return "matmul " + (f"{count}*" if count > 1 else "") + "x".join(map(str, sizes))


def _parted(left: Load, right: Load, name: str) -> int | None:
    """By what an axis is divided of which the left operand has the quotient and the right the remainder."""
    quotients = {atom for index in left.indices for atom, _ in index.terms if name in Index.of(atom).names()}
    for index in right.indices:
        for atom, _ in index.terms:
            if isinstance(atom, Mod) and atom.value.name == name and isinstance(atom.divisor, int):
                return atom.divisor if quotients == {FloorDiv(atom.value, atom.divisor)} else None
    return None


def _names(indices: Iterable[Index]) -> frozenset[str]:
    return frozenset(name for index in indices for name in index.names())


def _stride(indices: Iterable[Index], place: list[str]) -> str:
    stride = max((abs(index.coefficient(n)) for index in indices for n in place), default=1)
    return f" /{stride}" if stride > 1 else ""


def _sizes(stage: Stage, names: Iterable[str]) -> str:
    wanted = set(names)
    sizes = [size for name, size in stage.ranges.items() if name in wanted and size > 1]
    return "x".join(map(str, sizes)) or "1"


def _operations(expr: Expr) -> Iterator[str]:
    for child in children(expr):
        yield from _operations(child)
    if isinstance(expr, Apply):
        yield expr.op
    elif isinstance(expr, Lookup):
        yield "gather"


def _join(operations: list[str]) -> str:
    more = "+..." if len(operations) > _MOST_OPERATIONS else ""
    return "+".join(operations[:_MOST_OPERATIONS]) + more


def _dtype(stage: Stage) -> str:
    return "" if stage.dtype is DType.F32 else f" {stage.dtype.value}"
