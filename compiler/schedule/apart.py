"""Apart: a reduction and the map after it run one after the other, with the sums in scratch memory between them.

    t = sum ...                        t = sum ...
    y = f(t at several places)    →    sums = t
                                       y = f(sums at several places)

A tile that must hold every block of the reduction (the gates of a recurrent cell) is narrow in other directions; apart
from its map, the reduction takes the tile that suits it best.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.errors import ScheduleError
from compiler.index import Index
from compiler.scalar import Expr, Load, rewrite
from compiler.symbol import Axis
from compiler.workload.ir import Stage, Workload

SUMS = "sums"
"""What the name of a stage that stores what is reduced begins with; that of the reduction follows."""


def apart(workload: Workload, parameters: tuple[int, ...]) -> Workload:
    """The rewritten Workload; `parameters`: the place of the reduction among the stages.

    After it may follow the place, among the dimensions of its result, of the one that is innermost in the sums.
    """
    place = parameters[0] if len(parameters) in (1, 2) else -1
    anchor = workload.stages[place] if 0 <= place < len(workload.stages) else None
    temporary = next((t for t in workload.temporaries if anchor and t.name == anchor.target), None)
    if anchor is None or anchor.reducer is None or temporary is None:
        msg = f"apart needs the place of a stage that reduces into an intermediate buffer, not {parameters}"
        raise ScheduleError(msg)
    order = list(range(len(temporary.shape)))
    if parameters[1:]:
        if parameters[1] not in order:
            msg = f"the result of {anchor.name} has {len(order)} dimensions; none is number {parameters[1]}"
            raise ScheduleError(msg)
        order.append(order.pop(parameters[1]))
    shape = tuple(temporary.shape[d] for d in order)
    buffer = replace(temporary, name=f"{SUMS}.{anchor.name}_buffer", shape=shape)

    def moved(indices: tuple[Index, ...]) -> tuple[Index, ...]:
        return tuple(indices[d] for d in order)

    def rule(e: Expr) -> Expr | None:
        if not isinstance(e, Load) or e.buffer != temporary.name:
            return None
        return Load(buffer.name, moved(e.indices))

    places = moved(anchor.target_indices)
    axes = anchor.axes
    if parameters[1:]:
        axes = tuple(sorted(axes, key=lambda a: _dimension(a, places)))
    summed = replace(anchor, axes=axes, target_indices=places)
    read = Load(temporary.name, places)
    store = Stage(f"{SUMS}.{anchor.name}", axes, (), None, read, buffer.name, places, anchor.dtype)
    rest = tuple(s.rewritten(lambda body: rewrite(body, rule)) for s in workload.stages[place + 1 :])
    return replace(
        workload,
        temporaries=(
            *(replace(t, shape=shape) if t is temporary else t for t in workload.temporaries),
            buffer,
        ),
        stages=(*workload.stages[:place], summed, store, *rest),
    )


def _dimension(axis: Axis, places: tuple[Index, ...]) -> int:
    """The dimension that an axis walks along; axes of extent 1 walk along none, and come first."""
    return next((d for d, index in enumerate(places) if axis.name in index.names()), -1)
