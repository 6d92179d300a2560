"""Moments: mean and variance in one pass over the data, which is shifted by the mean of its first elements.

    t0[r] = sum(k) x[r, k]                       shift[r] = (sum(k < m) x[r, k]) / m
    t1[r] = t0[r] / n                       →    t0[r] = sum(k) (x[r, k] - shift[r])
    t2[r] = sum(k) (x[r, k] - t1[r])**2          squares[r] = sum(k) (x[r, k] - shift[r])**2
                                                 t1[r] = shift[r] + t0[r] / n
                                                 t2[r] = squares[r] - t0[r] * (t0[r] / n)

Neither sum waits for the other, so that both take each element while it is in a register. What is subtracted at the end
is small: the square of the distance of the shift from the mean is at most n/m - 1 variances, for the first m elements
alone have m/n times its square in the variance, and the others have their part to even that out. With a 32nd of
the data a variance loses five bits at the very most; random data lose none.

Source: T. Chan, G. Golub, R. LeVeque, Algorithms for computing the sample variance, The American Statistician 37(3),
1983: shifted data, and the shift as the mean of some of the data.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from operator import le

from compiler.errors import ScheduleError
from compiler.index import Index
from compiler.scalar import Apply, Const, Expr, Load, apply, loads, rewrite, substitute
from compiler.symbol import axis
from compiler.workload.ir import Operand, Stage, Workload

LEAST = 32
"""The shift is the mean of at least one in so many elements."""
FIRST, SHIFT, VARIANCE = "first", "shift", "variance"
"""What the names of new stages begin with: the sum of the first elements, its map, and that of the sum of squares."""
_EXACT = 1e-6
"""Relative error of one over the number of elements, as a constant of the model has it."""


@dataclass(frozen=True, slots=True)
class Moments:
    """The stages of a mean and of a variance around it.

    Attributes:
        total, mean: the sum of the data, and the map that divides it by the number of elements.
        squares: the sum of the squares of what is left of the data without the mean.
        data: what is summed, over the axes of `squares`.
    """

    total: Stage
    mean: Stage
    squares: Stage
    data: Expr


def moments(workload: Workload, parameters: tuple[int, ...]) -> Workload:
    """The rewritten Workload; `parameters`: of each reduction axis of the sum, how many of its first to shift by."""
    found = find_moments(workload)
    if found is None:
        msg = "moments needs a mean, and a sum of the squares of the same data without it"
        raise ScheduleError(msg)
    sizes = [a.size for a in found.total.reduce_axes]
    fitting = len(parameters) == len(sizes) and all(map(le, parameters, sizes))
    if not (fitting and min(parameters) > 0 and prod(sizes) <= LEAST * prod(parameters)):
        msg = f"moments needs the first of each axis of the sum, one in {LEAST} of its elements, not {parameters}"
        raise ScheduleError(msg)
    return _rewritten(workload, found, parameters)


def find_moments(workload: Workload) -> Moments | None:
    """The first mean that a variance follows; None where there is none."""
    for squares in workload.stages:
        if squares.reducer != "sum" or not squares.dtype.is_float:
            continue
        match _through_maps(squares.body, workload, {a.name for a in squares.reduce_axes}):
            case Apply("mul", (Apply("sub", (data, Load(mean, _))) as one, other)) if one == other:
                found = _moments(workload, squares, data, mean)
                if found is not None:
                    return found
    return None


def _moments(workload: Workload, squares: Stage, data: Expr, name: str) -> Moments | None:
    mean = next((s for s in workload.stages if s.target == name and s.reducer is None and not s.also), None)
    source = None if mean is None else _divided(mean.body)
    if mean is None or source is None:
        return None
    load, divisor = source
    total = next((s for s in workload.stages if s.target == load.buffer), None)
    if total is None or total.reducer != "sum" or total.dtype is not squares.dtype:
        return None
    sizes = [a.extent.constant for a in total.reduce_axes]
    if None in sizes or [a.extent for a in squares.reduce_axes] != [a.extent for a in total.reduce_axes]:
        return None
    count = prod(a.size for a in total.reduce_axes)
    same = {s.name: Index.of(t.name) for s, t in zip(squares.reduce_axes, total.reduce_axes, strict=True)}
    plain = total.axes == squares.axes == mean.axes and (
        total.target_indices == squares.target_indices == mean.target_indices == load.indices
    )
    alone = sum(
        any(r.buffer == total.target for r in loads(e.body)) for s in workload.stages for e in s.results
    )
    if not plain or alone != 1 or substitute(data, same) != total.body or abs(divisor / count - 1) > _EXACT:
        return None
    return Moments(total, mean, squares, data)


def _divided(body: Expr) -> tuple[Load, float] | None:
    """What a map divides, and by which number."""
    match body:
        case Apply("mul", (Load() as load, Const(value=factor))) if factor:
            return load, 1 / factor
        case Apply("div", (Load() as load, Const(value=divisor))):
            return load, divisor
        case _:
            return None


def _through_maps(body: Expr, workload: Workload, names: set[str]) -> Expr:
    """With maps over more than rows in place of their results."""
    makers = {s.target: s for s in workload.stages if s.reducer is None and not s.also}

    def rule(e: Expr) -> Expr | None:
        if not isinstance(e, Load) or e.buffer not in makers or not any(i.names() & names for i in e.indices):
            return None
        maker = makers[e.buffer]
        places = {i.name: at for i, at in zip(maker.target_indices, e.indices, strict=True) if i.name}
        if {a.name for a in maker.axes if a.extent.constant != 1} - places.keys():
            return None
        return _through_maps(substitute(maker.body, places), workload, names)

    return rewrite(body, rule)


def _rewritten(workload: Workload, found: Moments, counts: tuple[int, ...]) -> Workload:
    total, mean, squares = found.total, found.mean, found.squares
    buffers, kind = workload.buffers, total.dtype
    rows = total.target_indices
    elements = prod(a.size for a in total.reduce_axes)
    names = (f"{FIRST}.{total.name}", f"{SHIFT}.{total.name}", f"{VARIANCE}.{squares.name}")
    some, shift, spread = (Load(f"{name}_buffer", rows) for name in names)
    sums = Load(total.target, rows)
    apart, its = apply("sub", total.body, shift), apply("sub", found.data, shift)
    few = tuple(axis(a.name, count) for a, count in zip(total.reduce_axes, counts, strict=True))
    share = Const(1 / prod(a.size for a in few), kind)
    over = Const(1 / elements, kind)

    def stored(name: str, body: Expr, target: str) -> Stage:
        return Stage(name, total.axes, (), None, body, target, rows, kind)

    variance = apply("sub", spread, apply("mul", sums, apply("mul", sums, over)))
    positive = apply("max", variance, Const(0.0, kind))
    made = {
        total.name: (
            replace(total, name=names[0], reduce_axes=few, target=some.buffer),
            stored(names[1], apply("mul", some, share), shift.buffer),
            replace(total, body=apart),
            replace(squares, body=apply("mul", its, its), target=spread.buffer),
        ),
        mean.name: (replace(mean, body=apply("add", shift, apply("mul", sums, over))),),
        squares.name: (stored(names[2], positive, squares.target),),
    }
    stages = [new for s in workload.stages for new in made.get(s.name, (s,))]
    known = buffers[total.target]
    new = tuple(Operand(load.buffer, known.shape, known.dtype) for load in (some, shift, spread))
    return _needed(replace(workload, temporaries=(*workload.temporaries, *new), stages=tuple(stages)))


def _needed(workload: Workload) -> Workload:
    """Without maps that nothing reads any more."""
    read = {load.buffer for s in workload.stages for r in s.results for load in loads(r.body)}
    outputs = {o.name for o in workload.outputs}
    stages = tuple(s for s in workload.stages if s.also or s.target in read | outputs)
    if len(stages) == len(workload.stages):
        return workload
    stored = {r.target for s in stages for r in s.results}
    temporaries = tuple(t for t in workload.temporaries if t.name in stored)
    return _needed(replace(workload, temporaries=temporaries, stages=stages))
