"""Where the elements of a packed constant come from."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.dtype import DType
from compiler.errors import ScheduleError
from compiler.index import Index
from compiler.packing import Packing, Transform
from compiler.scalar import Expr, loads
from compiler.workload.ir import Operand

GROWTH_LIMIT = 4
"""A packed constant may have this many times the elements of its source (padding of tiles), plus SLACK."""
SLACK = 4096
"""Elements: what tiles that are larger than a small constant add."""


@dataclass(frozen=True, slots=True)
class PackedRead:
    """How a packed constant is made, and the indices at which it is read."""

    packing: Packing
    indices: tuple[Index, ...]


def plan_packing(
    operand: Operand,
    body: Expr,
    names: tuple[tuple[str, int], ...],
    transform: Transform | None,
    dtype: DType | None = None,
) -> PackedRead:
    """Pack the operand in the order of the names (outermost first, with their limits) that its read uses.

    Raises ScheduleError where the read is not affine in them, starts in front of the constant (or at an offset of one
    that is transformed), or would multiply the constant.
    """
    read = next(load for load in loads(body) if load.buffer == operand.name)
    used = {name for index in read.indices for name in index.names()}
    dims = [(name, size) for name, size in names if name in used]
    start = tuple(index.const for index in read.indices)
    if not all(index.is_affine() for index in read.indices) or used != {n for n, _ in dims}:
        msg = f"cannot pack {operand.name}: its read {read} is not affine in the loops around it"
        raise ScheduleError(msg)
    coefficients = tuple(tuple(index.coefficient(name) for index in read.indices) for name, _ in dims)
    if any(c < 0 for row in coefficients for c in row):
        msg = f"cannot pack {operand.name}: it is read backwards"
        raise ScheduleError(msg)
    if any(first < 0 for first in start) or (transform is not None and any(start)):
        msg = f"cannot pack {operand.name}: its read {read} does not begin where it does"
        raise ScheduleError(msg)
    elements = 1
    for _, size in dims:
        elements *= size
    if elements > GROWTH_LIMIT * operand.elements + SLACK:
        msg = f"cannot pack {operand.name}: {operand.elements} elements would become {elements}"
        raise ScheduleError(msg)
    kind = None if dtype is operand.dtype else dtype
    shape = tuple(size for _, size in dims)
    packing = Packing(operand.name, shape, coefficients, transform, kind, start if any(start) else ())
    return PackedRead(packing, tuple(Index.of(name) for name, _ in dims))
