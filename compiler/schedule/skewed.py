"""Skewed: rows that begin anywhere in a line are summed up from where that line begins.

    t[i] = sum(k < n) x[i, k]  →  t[i] = sum(k < m) x[i, k - s(i)] if 0 <= k - s(i) < n else 0        s(i) = n*i % lanes

A vector that lies in two lines is read as two. Where the lanes of a row begin with its first line none does, but some
of them are of its neighbours: they count as nothing. Of as many rows as make whole lines together `s` is known when
code is made, and so is which lanes count.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.errors import ScheduleError
from compiler.index import Index
from compiler.scalar import Bound, Expr, Guard, Load, loads, rewrite
from compiler.scalar_type import neutral
from compiler.symbol import Axis, axis
from compiler.workload.ir import Stage, Workload

_SUFFIX = ".skewed"


def skewed(workload: Workload, parameters: tuple[int, ...]) -> Workload:
    """The rewritten Workload; `parameters`: (lanes of a vector,).

    Raises:
        ScheduleError: its first stage does not reduce rows that begin anywhere in a line.
    """
    stage, *rest = workload.stages
    found = find_rows(workload, stage, *parameters) if len(parameters) == 1 else None
    if found is None:
        msg = (
            "skewed needs a reduction along rows in memory that are no whole vectors, and how long those are"
        )
        raise ScheduleError(msg)
    load, along, _ = found
    (lanes,) = parameters
    first = _flat(workload, load) - along.name
    shift = first - (first // lanes) * lanes
    name = f"{along.name}{_SUFFIX}"
    place = Index.of(name) - shift
    whole = axis(name, -(-(along.size + lanes - 1) // lanes) * lanes)
    moved = Load(load.buffer, tuple(i.substitute({along.name: place}) for i in load.indices))
    body: Expr = rewrite(stage.body, lambda e: moved if e == load else None)
    body = Guard((Bound(place, 0, along.size),), body, neutral(stage.reducer or "sum", stage.dtype))
    axes = tuple(whole if a is along else a for a in stage.reduce_axes)
    return replace(workload, stages=(replace(stage, reduce_axes=axes, body=body), *rest))


def is_skewed(along: Axis) -> bool:
    """Whether an axis counts from the line in which a row begins."""
    return along.name.endswith(_SUFFIX)


def find_rows(workload: Workload, stage: Stage, lanes: int) -> tuple[Load, Axis, dict[str, int]] | None:
    """What is read along rows that begin anywhere in a line, the axis along them, and how far apart rows are.

    That is in elements, by the axis from one row to the next. None where there are no such rows, or nobody knows.
    """
    if stage.reducer is None or not stage.reduce_axes:
        return None
    along = stage.reduce_axes[-1]
    own = [e for e in dict.fromkeys(loads(stage.body)) if any(along.name in i.names() for i in e.indices)]
    if len(own) != 1 or along.extent.constant is None:
        return None
    (load,) = own
    if any(Index.of(size).constant is None for size in workload.buffers[load.buffer].shape[1:]):
        return None
    flat = _flat(workload, load)
    pitches = {str(name): flat.coefficient(str(name)) for name in flat.names() if name != along.name}
    known = flat.is_affine() and flat.coefficient(along.name) == 1
    return (load, along, pitches) if known and any(step % lanes for step in pitches.values()) else None


def _flat(workload: Workload, load: Load) -> Index:
    """Elements in front of what is read."""
    strides = workload.buffers[load.buffer].strides
    return sum((i * stride for i, stride in zip(load.indices, strides, strict=True)), Index())
