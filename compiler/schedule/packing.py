"""Where the elements of a packed constant come from."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from compiler.dtype import DType
from compiler.errors import ScheduleError
from compiler.index import FloorDiv, Index
from compiler.packing import Packing, Parts, Shortened, Transform
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


def is_of_names(index: Index) -> bool:
    """Whether each term of an index is a name, or the quotient of one by a number."""
    return all(
        isinstance(atom, str)
        or (isinstance(atom, FloorDiv) and isinstance(atom.divisor, int) and atom.value.name is not None)
        for atom, _ in index.terms
    )


def plan_packing(
    operand: Operand,
    body: Expr,
    names: tuple[tuple[str, int], ...],
    transform: Transform | Parts | Shortened | None,
    dtype: DType | None = None,
) -> PackedRead:
    """Pack the operand in the order of the names (outermost first, with their limits) that its read uses.

    Raises ScheduleError where the read is not affine in them and their quotients, starts in front of the constant (or
    at an offset of one that is transformed to another shape), or would multiply the constant.
    """
    read = next(load for load in loads(body) if load.buffer == operand.name)
    sizes = dict(names)
    order = {name: place for place, name in enumerate(sizes)}
    atoms = {atom: Index.of(atom) for index in read.indices for atom, _ in index.terms}
    start = tuple(index.const for index in read.indices)
    if not all(is_of_names(index) and index.names() <= sizes.keys() for index in read.indices):
        msg = f"cannot pack {operand.name}: its read {read} is not affine in the loops around it"
        raise ScheduleError(msg)
    dims = sorted(atoms, key=lambda atom: max(order[name] for name in atoms[atom].names()))
    coefficients = tuple(tuple(dict(index.terms).get(atom, 0) for index in read.indices) for atom in dims)
    if any(c < 0 for row in coefficients for c in row):
        msg = f"cannot pack {operand.name}: it is read backwards"
        raise ScheduleError(msg)
    if any(first < 0 for first in start) or (isinstance(transform, Transform | Parts) and any(start)):
        msg = f"cannot pack {operand.name}: its read {read} does not begin where it does"
        raise ScheduleError(msg)
    shape = tuple(1 + atoms[atom].bounds(sizes)[1] for atom in dims)
    elements = prod(shape)
    if elements > GROWTH_LIMIT * operand.elements + SLACK:
        msg = f"cannot pack {operand.name}: {operand.elements} elements would become {elements}"
        raise ScheduleError(msg)
    kind = None if dtype is operand.dtype else dtype
    packing = Packing(operand.name, shape, coefficients, transform, kind, start if any(start) else ())
    return PackedRead(packing, tuple(atoms[atom] for atom in dims))
