"""Joined: where a window's places and their channels lie one after the other, one sum takes the place of two.

    t[x] = sum(j < 3, c < 4) data[s*x + j, c] * w[c, j]
    →  t[x] = sum(k < 12) data[4*s*x + k] * w[k]                   data as one line; w[4*j + c] is what w[c, j] was

Instructions on matrices add many products at once, and few channels would leave most of them empty. `joined` rewrites a
Workload as if the data were one line, another algorithm rewrites that, and `apart` gives the data its dimensions back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from compiler.errors import ScheduleError
from compiler.index import Index
from compiler.packing import Parts
from compiler.scalar import Bound, Expr, Guard, Load, loads, rewrite
from compiler.schedule.contraction import dimensions_last, find_contraction
from compiler.symbol import Axis, axis
from compiler.workload.ir import Operand, Stage, Workload

AXIS = "joined"


@dataclass(frozen=True, slots=True)
class Joined:
    """A Workload whose data is one line, and how to get back.

    Attributes:
        data: the operand as it is; its two last dimensions are one in the Workload.
        order: dimensions of the constant: the others, that of the window's places and that of the channels.
    """

    workload: Workload
    data: Operand
    order: tuple[int, ...]

    def apart(self, made: Workload) -> Workload:
        """What was made of the Workload, with the data as it is, and the constant's dimensions joined first."""
        (name,) = made.transforms
        channels = self.data.shape[-1]

        def rule(e: Expr) -> Expr | None:
            if not isinstance(e, Load) or e.buffer != self.data.name:
                return None
            *lead, last = e.indices
            place = last // channels
            return Load(e.buffer, (*lead, place, last - place * _known(channels)))

        parts = made.transforms[name]
        if not isinstance(parts, Parts):
            raise AssertionError(parts)
        copy, *others = made.stages  # which may read the data too, as it is
        return replace(
            made,
            operands=tuple(self.data if o.name == self.data.name else o for o in made.operands),
            stages=(copy.rewritten(lambda body: rewrite(body, rule)), *others),
            transforms={name: replace(parts, order=self.order, joined=2)},
        )


def join(workload: Workload) -> Joined:
    """The rewritten Workload; raises ScheduleError where the places of no window are neighbours."""
    stage = workload.stages[0]
    found = find_contraction(workload, stage)
    if found is None:
        raise _refused()
    load = loads(found.data)[0]
    data = workload.buffers[load.buffer]
    window, channel = _axes(stage, load, data)
    order = dimensions_last(found.weights, (window, channel))
    if order is None:
        raise _refused()
    count = channel.size
    places = load.indices[-2] - window.name
    whole = axis(AXIS, window.size * count)
    line = places * count + AXIS

    def rule(e: Expr) -> Expr | None:
        match e:
            case Load():
                return replace(e, indices=(*e.indices[:-2], line))
            case Guard(bounds, inside, outside):
                return Guard(tuple(_moved(b, load.indices[-2], line, count) for b in bounds), inside, outside)
            case _:
                return None

    weights = found.weights
    known = workload.buffers[weights.buffer]
    lead = order[:-2]
    joined = Load(weights.buffer, (*(weights.indices[d] for d in lead), Index.of(AXIS)))
    operands = {
        data.name: replace(data, shape=(*data.shape[:-2], data.shape[-2] * count)),
        known.name: replace(known, shape=(*(known.shape[d] for d in lead), whole.extent)),
    }
    factors = rewrite(stage.body, lambda e: joined if e == weights else None)
    body = rewrite(factors, lambda e: rewrite(e, rule) if e == found.data else None)
    reduces = tuple(whole if a is window else a for a in stage.reduce_axes if a is not channel)
    changed = replace(
        workload,
        operands=tuple(operands.get(o.name, o) for o in workload.operands),
        stages=(replace(stage, body=body, reduce_axes=reduces), *workload.stages[1:]),
    )
    return Joined(changed, data, order)


def _axes(stage: Stage, load: Load, data: Operand) -> tuple[Axis, Axis]:
    """Over a window's places and over the channels, which the two last dimensions of the data move along."""
    if len(load.indices) < 2:
        raise _refused()
    place, last = load.indices[-2:]
    channel = next((a for a in stage.reduce_axes if last.name == a.name), None)
    moving = [a for a in stage.reduce_axes if a.name in place.names()]
    if channel is None or data.shape[-1].constant != channel.size or len(moving) != 1:
        raise _refused()
    (window,) = moving
    if place.coefficient(window.name) != 1 or not place.is_affine() or window.size == 1:
        raise _refused()
    if any({window.name, channel.name} & index.names() for index in load.indices[:-2]):
        raise _refused()
    return window, channel


def _moved(bound: Bound, place: Index, line: Index, count: int) -> Bound:
    """The same test on the line."""
    shift = (bound.index - place).constant
    if shift is not None:
        return Bound(line + shift * count, bound.low * count, bound.high * count)
    if any(name in place.names() for name in bound.index.names()):
        raise _refused()
    return bound


def _known(extent: Index) -> int:
    if extent.constant is None:
        raise AssertionError(extent)
    return extent.constant


def _refused() -> ScheduleError:
    return ScheduleError(
        "the sum has no window whose places lie one after the other in memory with all channels"
    )
