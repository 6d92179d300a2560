"""The sum of products at the heart of a Workload, as instructions see it: what is broadcast, what is packed.

sum over r of data[.. r ..] * weights[.. r ..]      data: the same for all lanes; weights: a constant
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.dtype import DType
from compiler.index import Index
from compiler.instruction import Instruction
from compiler.scalar import Apply, Cast, Const, Expr, Guard, Load, loads, walk
from compiler.scalar_type import TypeOf, integer_range
from compiler.symbol import Axis
from compiler.workload.ir import Stage, Workload


@dataclass(frozen=True, slots=True)
class Contraction:
    """Both factors of the product, casts to its type included."""

    data: Expr
    weights: Load


def find_contraction(workload: Workload, stage: Stage) -> Contraction | None:
    """The factors of a stage that sums products of something and one constant; None where it does anything else."""
    constants = {o.name for o in workload.operands if o.constant}
    match stage.body:
        case Apply("mul", (first, second)) if stage.reducer == "sum":
            for data, weights in ((first, second), (second, first)):
                inner = weights.value if isinstance(weights, Cast) else weights
                if not isinstance(inner, Load) or inner.buffer not in constants:
                    continue
                if len(loads(data)) == 1 and loads(data)[0].buffer not in constants:
                    return Contraction(data, inner)
    return None


def fits(expr: Expr, dtype: DType, type_of: TypeOf) -> bool:
    """Whether a type holds every value that the expression can have."""
    if dtype.is_float:
        types = [type_of(load.buffer) for load in loads(expr)]
        plain = all(isinstance(e, Load | Cast | Guard | Const) for e in walk(expr))
        return types == [dtype] and plain
    found = integer_range(expr, type_of)
    return found is not None and dtype.holds(*found)


def is_direct(expr: Expr, dtype: DType, type_of: TypeOf) -> bool:
    """Whether the factor is an element of a buffer of that type as it stands."""
    inner = expr.value if isinstance(expr, Cast) else expr
    return isinstance(inner, Load) and type_of(inner.buffer) is dtype


def group_axis(stage: Stage, found: Contraction, group: int) -> Axis | None:
    """The reduction axis whose neighbours one instruction adds up; None where there is none.

    The data must move by one element of some dimension with it, the weights have it by itself in theirs. Of several the
    one that fills its groups best, then the one that is innermost in the data, is taken.
    """
    data = loads(found.data)[0]
    best: tuple[float, int, Axis] | None = None
    for axis in stage.reduce_axes:
        place = _dimension(data.indices, axis.name)
        alone = [i for i in found.weights.indices if axis.name in i.names()]
        if place is None or len(alone) != 1 or not _counts(alone[0], axis, stage, group):
            continue
        score = axis.size / (-(-axis.size // group) * group)
        if best is None or (score, place) > best[:2]:
            best = (score, place, axis)
    return None if best is None else best[2]


def _counts(index: Index, axis: Axis, stage: Stage, group: int) -> bool:
    """Whether a dimension of the weights is an axis by itself, or blocks of the sum and, in them, whole groups."""
    if index.name == axis.name:
        return True
    blocks = [a.name for a in stage.reduce_axes if a is not axis and a.name in index.names()]
    whole = len(blocks) == 1 and axis.size % group == 0
    return whole and index == Index.of(blocks[0]) * axis.size + axis.name


def _dimension(indices: tuple[Index, ...], name: str) -> int | None:
    """The only dimension that moves with the name, where it moves by one."""
    found = [d for d, index in enumerate(indices) if name in index.names()]
    if len(found) != 1 or indices[found[0]].coefficient(name) != 1:
        return None
    return found[0]


def group_dimension(load: Load, name: str) -> int:
    """The dimension that moves with the group axis."""
    return next(d for d, index in enumerate(load.indices) if name in index.names())


def dimensions_last(load: Load, axes: tuple[Axis, ...]) -> tuple[int, ...] | None:
    """The dimensions of what is read, those that run over the axes last; None where others move along them too."""
    names = {a.name for a in axes}
    ends = [next((d for d, i in enumerate(load.indices) if i.name == a.name), -1) for a in axes]
    others = [d for d in range(len(load.indices)) if d not in ends]
    if min(ends) < 0 or any(load.indices[d].names() & names for d in others):
        return None
    return (*others, *ends)


def computes(workload: Workload, stage: Stage, entry: Instruction) -> Contraction | None:
    """The factors, where the instruction gives what the stage says (its data perhaps copied first), else None."""
    found = find_contraction(workload, stage)
    if found is None or stage.dtype is not entry.sum:
        return None
    buffers = workload.buffers

    def type_of(name: str) -> DType:
        return buffers[name].dtype

    if not fits(found.data, entry.left, type_of) or not fits(found.weights, entry.right, type_of):
        return None
    bound = buffers[found.weights.buffer].bound
    if entry.right_limit is not None and (bound is None or bound > entry.right_limit):
        return None
    return found if group_axis(stage, found, entry.group) is not None else None
