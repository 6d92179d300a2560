"""Scattered: a reduction whose iterations look up where they count goes through them once, and stores there.

    t[p, k] = sum(i) [v = indices[i]: u[i, k] where p = v, else 0]
    →  t[p, k] = 0                              stage "fill.t"
       t[v, k] = t[v, k] + u[i, k]              stage "t", for every i in order, v = indices[i]

What follows is often no more than the same operation on what was there before, or nothing. Then the result is filled
with that, and added to:

    y[p, k] = x[p, k] + t[p, k]                 →  y[p, k] = x[p, k]; y[v, k] = y[v, k] + u[i, k]

The second stage adds to what the first has stored: its target's indices are looked up, so iterations of the reduction
may come to one place, and are never shared out or done in the lanes of a vector. One more axis, of one iteration, is
there to make a phase of it where nothing else can be shared out.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.errors import ScheduleError
from compiler.scalar import Apply, Expr, Load, loads
from compiler.scalar_ops import REDUCERS
from compiler.scalar_type import neutral
from compiler.scatter import find_scatter
from compiler.symbol import axis
from compiler.workload.ir import Workload

FILL = "fill"
"""What the name of the stage that fills the target begins with."""
ONCE = "once"
"""The axis of one iteration."""


def scattered(workload: Workload, parameters: tuple[int, ...]) -> Workload:
    """The rewritten Workload; it has no parameters.

    Raises:
        ScheduleError: its first stage is no reduction whose iterations look up where they count.
    """
    stage, *rest = workload.stages
    found = find_scatter(stage)
    if parameters or found is None or stage.target in {o.name for o in workload.outputs}:
        msg = "scattered needs a reduction whose iterations look up where they count, and no parameters"
        raise ScheduleError(msg)
    empty = neutral(stage.reducer or "sum", stage.dtype)
    fill = replace(stage, name=f"{FILL}.{stage.name}", reduce_axes=(), reducer=None, body=empty)
    into = _filled(workload)
    if into is not None:
        fill = replace(rest[0], name=fill.name, body=into)
        rest = []
    update = replace(
        stage,
        axes=(axis(ONCE, 1), *(a for a in stage.axes if a.name not in found.places)),
        body=found.body,
        target=fill.target,
        target_indices=tuple(i.substitute(found.places) for i in fill.target_indices),
    )
    temporaries = tuple(t for t in workload.temporaries if into is None or t.name != stage.target)
    return replace(workload, temporaries=temporaries, stages=(fill, update, *rest))


def _filled(workload: Workload) -> Expr | None:
    """What the output is filled with where it can be added to; None where another map follows, or in another type."""
    if len(workload.stages) != 2 or workload.stages[1].also:
        return None
    stage, store = workload.stages
    total, reducer = Load(stage.target, stage.target_indices), stage.reducer or "sum"
    types = {store.dtype, workload.buffers[stage.target].dtype, workload.buffers[store.target].dtype}
    if store.axes != stage.axes or types != {stage.dtype}:
        return None
    match store.body:
        case Apply(op, (other, last)) if op == REDUCERS[reducer].op:
            old, new = (other, last) if last == total else (last, other)
        case body:
            old, new = neutral(reducer, stage.dtype), body
    return old if new == total and total.buffer not in {load.buffer for load in loads(old)} else None
