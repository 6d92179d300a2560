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
from compiler.scalar import Expr, Load, rewrite
from compiler.workload.ir import Stage, Workload

SUMS = "sums"
"""What the name of a stage that stores what is reduced begins with; that of the reduction follows."""


def apart(workload: Workload, parameters: tuple[int, ...]) -> Workload:
    """The rewritten Workload; `parameters`: (place of the reduction among the stages,)."""
    place = parameters[0] if len(parameters) == 1 else -1
    anchor = workload.stages[place] if 0 <= place < len(workload.stages) else None
    temporary = next((t for t in workload.temporaries if anchor and t.name == anchor.target), None)
    if anchor is None or anchor.reducer is None or temporary is None:
        msg = f"apart needs the place of a stage that reduces into an intermediate buffer, not {parameters}"
        raise ScheduleError(msg)
    buffer = replace(temporary, name=f"{SUMS}.{anchor.name}_buffer")

    def rule(e: Expr) -> Expr | None:
        return Load(buffer.name, e.indices) if isinstance(e, Load) and e.buffer == temporary.name else None

    read = Load(temporary.name, anchor.target_indices)
    name = f"{SUMS}.{anchor.name}"
    store = Stage(name, anchor.axes, (), None, read, buffer.name, anchor.target_indices, anchor.dtype)
    rest = tuple(s.rewritten(lambda body: rewrite(body, rule)) for s in workload.stages[place + 1 :])
    return replace(
        workload,
        temporaries=(*workload.temporaries, buffer),
        stages=(*workload.stages[: place + 1], store, *rest),
    )
