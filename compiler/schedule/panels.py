"""Panels: an activation is copied, at run time, into the order in which vectors read it.

    t[b, i, j] = sum(k) x[b, i, k] * z[b, j, k]                              lanes along j
    →  panels[b, p, k, l] = z[b, p*8 + l, k]   (0 beyond z)                  p < ceil(J / 8), l < 8
       t[b, i, j] = sum(k) x[b, i, k] * panels[b, j // 8, k, j % 8]

It is what packing does to a constant (Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication, 2008),
as a stage of its own, because the operand is known at run time only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from compiler.dtype import DType
from compiler.errors import ScheduleError
from compiler.index import Index
from compiler.scalar import Apply, Expr, Guard, Load, below, read_names, rewrite
from compiler.scalar_type import neutral
from compiler.symbol import Axis, as_size, axis, ceiling, divides, product, size_at
from compiler.workload.ir import Operand, Stage, Workload

PACK = "pack"
"""What the name of a stage that copies begins with; that of the stage which reads the copy follows."""


@dataclass(frozen=True, slots=True)
class Panels:
    """The load that is copied, along which axis, and the other axes that it runs over.

    Attributes:
        kept: spatial axes of the load besides `along`.
        reduced: reduction axes of the load.
    """

    load: Load
    along: Axis
    kept: tuple[Axis, ...]
    reduced: tuple[Axis, ...]


def find_panels(workload: Workload, stage: Stage, name: str) -> Panels | None:
    """What of a stage's product can be copied in panels along one of its axes; None where nothing is."""
    match stage.body:
        case Apply("mul", (Load() as a, Load() as b)) if stage.reducer == "sum":
            pass
        case _:
            return None
    operands = {o.name: o for o in workload.operands}
    along = [load for load in (a, b) if name in read_names(load)]
    if len(along) != 1:
        return None
    (load,) = along
    if load.buffer not in operands or operands[load.buffer].constant:
        return None
    names, axes = read_names(load), {a.name: a for a in stage.axes}
    kept = tuple(a for a in stage.axes if a.name in names and a.name != name)
    reduced = tuple(a for a in stage.reduce_axes if a.name in names)
    usual = {s.name: s.nominal for s in workload.symbols}
    points = size_at(as_size(product(a.extent for a in (axes[name], *kept, *reduced))), usual)
    affine = all(index.is_affine() for index in load.indices)
    if not affine or not reduced or points > size_at(as_size(operands[load.buffer].count), usual):
        return None
    return Panels(load, axes[name], kept, reduced)


def panels(workload: Workload, parameters: tuple[int, ...]) -> Workload:
    """The rewritten Workload; `parameters`: (place of the stage, place of one of its axes, lanes)."""
    place, number_of_axis, lanes = _checked(workload, parameters)
    stage = workload.stages[place]
    name = stage.axes[number_of_axis].name
    found = find_panels(workload, stage, name)
    if found is None:
        msg = f"no operand of stage {stage.name} can be copied in panels along {name}"
        raise ScheduleError(msg)
    number, lane = axis(f"{name}.p", ceiling(found.along.extent, lanes)), axis(f"{name}.l", lanes)
    copied = (*found.kept, number, *found.reduced, lane)
    buffer = Operand(
        f"panels.{stage.name}", tuple(a.extent for a in copied), workload.buffers[found.load.buffer].dtype
    )
    at = tuple(Index.of(a.name) for a in copied)
    copy = Stage(
        f"{PACK}.{stage.name}",
        copied,
        (),
        None,
        _element(found, lanes, buffer.dtype),
        buffer.name,
        at,
        buffer.dtype,
    )
    here = Index.of(found.along.name)
    outer, inner = (tuple(Index.of(a.name) for a in group) for group in (found.kept, found.reduced))
    read = Load(buffer.name, (*outer, here // lanes, *inner, here % lanes))

    def rule(e: Expr) -> Expr | None:
        return read if e == found.load else None

    changed = stage.rewritten(lambda body: rewrite(body, rule))
    return replace(
        workload,
        temporaries=(buffer, *workload.temporaries),
        stages=(*workload.stages[:place], copy, changed, *workload.stages[place + 1 :]),
    )


def _checked(workload: Workload, parameters: tuple[int, ...]) -> tuple[int, int, int]:
    if len(parameters) == 3:
        place, number, lanes = parameters
        stages = workload.stages
        if 0 <= place < len(stages) and 0 <= number < len(stages[place].axes) and lanes > 0:
            return place, number, lanes
    msg = f"panels need a stage, an axis and a number of lanes, not {parameters}"
    raise ScheduleError(msg)


def _element(found: Panels, lanes: int, dtype: DType) -> Expr:
    name = found.along.name
    whole = Index.of(f"{name}.p") * lanes + f"{name}.l"
    load = Load(found.load.buffer, tuple(i.substitute({name: whole}) for i in found.load.indices))
    if divides(lanes, found.along.extent):
        return load
    return Guard((below(whole, found.along.extent),), load, neutral("sum", dtype))
