"""Strassen: a matrix product by a constant, as sums of blocks, a batch of smaller products, and sums of those.

    t0[m, n] = sum(k) x[m, k] * w[k, n]
    →  blocks[e, m, k]  = sum(q) A[e, q] * x[2*m + q0, q1*K + k]           q = (q0, q1): a block of x
       product[e, m, n] = sum(k) blocks[e, m, k] * (B w)[k, n, e]
       outputs[p, m, n] = sum(e) C[p, e] * product[e, m, n]                p = (p0, p1): a block of the result
       t0[m, n]         = outputs[(m % 2, n // N), m // 2, n % N]

The sum and the columns are cut into halves; even and odd rows are blocks too, so that an odd number of them is no
matter. There are seven products of blocks where the plain form needs eight. The constant's sums B w are made once, in
float64. All entries of the matrices are 0, 1 and -1.

Neighbouring rows meet in sums: a number that is not finite reaches both results, and rounding errors are as large as
the larger row's. So rows that the first dimension of the data numbers, samples mostly, are left alone.

Source: V. Strassen, Gaussian elimination is not optimal, Numerische Mathematik 13 (1969).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd, sqrt

from compiler.dtype import DType
from compiler.errors import ScheduleError
from compiler.index import Index
from compiler.loop.room import CROWDED, SETS, spread_rows
from compiler.packing import Transform
from compiler.scalar import Apply, Bound, Const, Expr, Guard, Load, Pick, rewrite
from compiler.symbol import Axis, axis
from compiler.target import LINE_BYTES
from compiler.workload.ir import Operand, Stage, Workload

Rows = tuple[tuple[int, ...], ...]

DATA: Rows = (
    (1, 0, 0, 1),
    (0, 0, 1, 1),
    (1, 0, 0, 0),
    (0, 0, 0, 1),
    (1, 1, 0, 0),
    (-1, 0, 1, 0),
    (0, 1, 0, -1),
)
CONSTANT: Rows = (
    (1, 0, 0, 1),
    (1, 0, 0, 0),
    (0, 1, 0, -1),
    (-1, 0, 1, 0),
    (0, 0, 0, 1),
    (1, 1, 0, 0),
    (0, 0, 1, 1),
)
RESULT: Rows = ((1, 0, 0, 1, -1, 0, 1), (0, 0, 1, 0, 1, 0, 0), (0, 1, 0, 1, 0, 0, 0), (1, -1, 1, 0, 0, 1, 0))
"""Of the blocks 11, 12, 21, 22: what each product multiplies, and which products each block of the result adds."""
HALVES = 2


def growth() -> float:
    """How much larger rounding errors are than those of the plain form, for random operands; the worst block counts."""
    sizes = [sum(map(abs, a)) * sum(map(abs, b)) for a, b in zip(DATA, CONSTANT, strict=True)]
    squares = [sum(abs(c) * size for c, size in zip(row, sizes, strict=True)) for row in RESULT]
    return sqrt(max(squares) / HALVES)


@dataclass(frozen=True, slots=True)
class Product:
    """A sum of products of something and a constant.

    Attributes:
        stage: the sum.
        data, weights: the two loads of the product.
        row: the longest axis that moves the data alone, and not along its first dimension.
        column: the axis that moves the constant alone.
        summed: the axis of the sum.
        batch: other axes that move the data alone.
    """

    stage: Stage
    data: Load
    weights: Load
    row: Axis
    column: Axis
    summed: Axis
    batch: tuple[Axis, ...]


def find_product(workload: Workload) -> Product | None:
    """The product, where the first stage is one in float32 whose sizes are known; else None."""
    stage, constants = workload.stages[0], {o.name for o in workload.operands if o.constant}
    body = stage.body
    known = all(a.extent.constant is not None for a in (*stage.axes, *stage.reduce_axes))
    if stage.reducer != "sum" or not known or stage.dtype is not DType.F32 or len(stage.reduce_axes) != 1:
        return None
    if not isinstance(body, Apply) or body.op != "mul":
        return None
    for data, weights in (body.args, body.args[::-1]):
        if not isinstance(data, Load) or not isinstance(weights, Load):
            return None
        if weights.buffer in constants and data.buffer not in constants:
            return _match(workload, stage, data, weights)
    return None


def strassen(workload: Workload, parameters: tuple[int, ...]) -> Workload:
    """The rewritten Workload; there are no parameters."""
    found = find_product(workload)
    if found is None or parameters:
        msg = "strassen needs samples that are matrices, times a constant one, and has no parameters"
        raise ScheduleError(msg)
    if found.column.size % HALVES or found.summed.size % HALVES:
        sizes = f"{found.summed.size} x {found.column.size}"
        msg = f"strassen cuts both sides of the constant into halves; {sizes} cannot be"
        raise ScheduleError(msg)
    return _Rewriting(workload, found).workload()


def _match(workload: Workload, stage: Stage, data: Load, weights: Load) -> Product | None:
    (summed,) = stage.reduce_axes
    names = [index.name for index in weights.indices if index.constant != 0]
    moved = {name for index in data.indices for name in index.names()}
    columns = [a for a in stage.axes if a.name in names]
    others = [a for a in stage.axes if a.name not in names]
    if len(columns) != 1 or sorted(map(str, names)) != sorted((columns[0].name, summed.name)):
        return None
    if columns[0].name in moved or not others or not {a.name for a in (*others, summed)} <= moved:
        return None
    if not all(index.is_affine() for index in data.indices):
        return None
    shape = workload.buffers[weights.buffer].sizes
    sizes = {a.name: a.size for a in (columns[0], summed)}
    if any(size != sizes.get(str(index.name), 1) for size, index in zip(shape, weights.indices, strict=True)):
        return None
    rows = [a for a in others if a.name not in data.indices[0].names()]
    row = max(rows, key=lambda a: a.size, default=None)
    if row is None:
        return None
    return Product(stage, data, weights, row, columns[0], summed, tuple(a for a in others if a is not row))


class _Rewriting:
    def __init__(self, workload: Workload, found: Product) -> None:
        self.workload_, self.found, self.dtype = workload, found, found.stage.dtype
        self.entries = axis("e", len(DATA))
        self.row = axis(found.row.name, -(-found.row.size // HALVES))
        self.column = axis(found.column.name, found.column.size // HALVES)
        self.summed = axis(found.summed.name, found.summed.size // HALVES)
        self.data_axes = (self.entries, *found.batch, self.row, self.summed)
        self.product_axes = (self.entries, *found.batch, self.row, self.column)

    def workload(self) -> Workload:
        old, found = self.workload_, self.found
        weights = next(o for o in old.operands if o.name == found.weights.buffer)
        output_axes = (axis("p0", HALVES), axis("p1", HALVES), *found.batch, self.row, self.column)
        kept = (t for t in old.temporaries if t.name != found.stage.target)
        return replace(
            old,
            operands=tuple(self._changed(o) if o is weights else o for o in old.operands),
            temporaries=(
                self._buffer("blocks_sum", self.data_axes),
                self._spread("blocks", self.data_axes),
                self._buffer("product_sum", self.product_axes),
                self._spread("product", self.product_axes),
                self._buffer("outputs", output_axes),
                *kept,
            ),
            stages=(
                *self._blocks(),
                *self._products(),
                self._outputs(output_axes),
                *(s.rewritten(self._read) for s in old.stages[1:]),
            ),
            transforms={weights.name: self._transform(weights)},
        )

    # --- stages

    def _blocks(self) -> tuple[Stage, Stage]:
        q0, q1 = axis("q0", HALVES), axis("q1", HALVES)
        factor = _pick(DATA, Index.of("e"), Index.of("q0") * HALVES + "q1")
        total = self._sum("blocks_sum", self.data_axes, (q0, q1), factor, self._element())
        return total, self._stored("blocks", self.data_axes)

    def _products(self) -> tuple[Stage, Stage]:
        lead = (i for i in self.found.weights.indices if i.constant is None)
        weights = Load(self.found.weights.buffer, (*lead, Index.of("e")))
        data = Load("blocks_buffer", _names(self.data_axes))
        total = self._sum("product_sum", self.product_axes, (self.summed,), data, weights)
        return total, self._stored("product", self.product_axes)

    def _outputs(self, axes: tuple[Axis, ...]) -> Stage:
        factor = _pick(RESULT, Index.of("p0") * HALVES + "p1", Index.of("e"))
        product = Load("product_buffer", _names(self.product_axes))
        return self._sum("outputs", axes, (self.entries,), factor, product)

    def _sum(
        self, name: str, axes: tuple[Axis, ...], over: tuple[Axis, ...], one: Expr, other: Expr
    ) -> Stage:
        body = Apply("mul", (one, other))
        return Stage(name, axes, over, "sum", body, f"{name}_buffer", _names(axes), self.dtype)

    def _stored(self, name: str, axes: tuple[Axis, ...]) -> Stage:
        loaded = Load(f"{name}_sum_buffer", _names(axes))
        return Stage(name, axes, (), None, loaded, f"{name}_buffer", _names(axes), self.dtype)

    def _element(self) -> Expr:
        """An element of a block of the data, 0 behind the last row."""
        row, summed = self.row, self.summed
        moved = {
            row.name: Index.of(row.name) * HALVES + "q0",
            summed.name: Index.of("q1") * summed.size + summed.name,
        }
        load = Load(self.found.data.buffer, tuple(i.substitute(moved) for i in self.found.data.indices))
        if self.found.row.size % HALVES == 0:
            return load
        return Guard((Bound(moved[row.name], 0, self.found.row.size),), load, Const(0, self.dtype))

    def _read(self, body: Expr) -> Expr:
        """The body with the product's sums read from the blocks of the result."""
        names = [index.name for index in self.found.stage.target_indices]
        row, column = self.row, self.column

        def rule(e: Expr) -> Expr | None:
            if not isinstance(e, Load) or e.buffer != self.found.stage.target:
                return None
            at = dict(zip(names, e.indices, strict=True))
            m, n = at[row.name], at[column.name]
            lead = (at[a.name] for a in self.found.batch)
            return Load("outputs_buffer", (m % HALVES, n // column.size, *lead, m // HALVES, n % column.size))

        return rewrite(body, rule)

    # --- buffers

    def _buffer(self, name: str, axes: tuple[Axis, ...]) -> Operand:
        return Operand(f"{name}_buffer", tuple(a.extent for a in axes), self.dtype)

    def _spread(self, name: str, axes: tuple[Axis, ...]) -> Operand:
        """With room behind rows and columns, so that the same place of all entries is not in the same few sets."""
        *lead, row, wide = (a.size for a in axes)
        line = LINE_BYTES // self.dtype.size_bytes
        lines = -(-wide // line)
        lines += gcd(lines, SETS) > CROWDED
        row = spread_rows(row, lines * LINE_BYTES)
        return Operand(f"{name}_buffer", tuple(Index.of(n) for n in (*lead, row, lines * line)), self.dtype)

    def _changed(self, weights: Operand) -> Operand:
        """The constant's sums, the products in the last dimension."""
        sizes = [weights.sizes[d] // HALVES for d in self._sides(weights)]
        shape = tuple(Index.of(n) for n in (*sizes, self.entries.size))
        return Operand(weights.name, shape, self.dtype, constant=True)

    def _transform(self, weights: Operand) -> Transform:
        """The map from the blocks of the constant, in the order in which the sum and the columns number them."""
        sides = self._sides(weights)
        summed_first = self.found.weights.indices[sides[0]].name == self.found.summed.name
        shape = tuple(n for d in sides for n in (HALVES, weights.sizes[d] // HALVES))
        matrix = tuple(tuple(map(float, row)) for row in CONSTANT)
        return Transform(shape, matrix, order=(1, 3, 0, 2) if summed_first else (1, 3, 2, 0), combined=2)

    def _sides(self, weights: Operand) -> list[int]:
        """The dimensions of the constant along which the sum and the columns lie, as they come."""
        return [d for d, index in enumerate(self.found.weights.indices) if index.constant is None]


def _names(axes: tuple[Axis, ...]) -> tuple[Index, ...]:
    return tuple(Index.of(a.name) for a in axes)


def _pick(matrix: Rows, row: Index, column: Index) -> Pick:
    """An entry of a matrix whose rows and columns two numbers say."""
    values = tuple(float(v) for entries in matrix for v in entries)
    return Pick(values, row * len(matrix[0]) + column)
