"""Matrix products: contractions of two operands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from compiler.dtype import DType
from compiler.frontend.call import Lowering, OperatorCall
from compiler.frontend.computes import (
    ReduceAxes,
    at,
    broadcast,
    broadcast_indices,
    broadcast_load,
    float_operands,
    output_axes,
    reduced,
)
from compiler.frontend.single import in_single
from compiler.graph.ir import Compute
from compiler.index import Index
from compiler.scalar import Cast, Const, Expr, Load, apply
from compiler.symbol import Axis


@dataclass(frozen=True)
class Product:
    """A batched matrix product: its axes, and the elements that it multiplies."""

    axes: tuple[Axis, ...]
    inner: ReduceAxes
    left: Load
    right: Load
    row: int | None
    """Place of the axis of rows, None where the left operand is a vector; that of columns likewise."""
    column: int | None


def product(call: OperatorCall, left: str, right: str) -> Product:
    """y[..., m, n] = sum k of a[..., m, k] * b[..., k, n]; a vector has no m or no n. Raises ModelError."""
    a, b = call.builder.shapes[left], call.builder.shapes[right]
    if not a or not b or a[-1] != b[-2 if len(b) > 1 else 0]:
        call.reject(f"multiplies shapes {list(a)} and {list(b)}, which do not fit")
    batch = broadcast(call, [a[:-2], b[:-2]])
    rows, columns = a[-2:-1], b[-1:] if len(b) > 1 else ()
    axes = output_axes((*batch, *rows, *columns))
    indices = at(axes)
    outer, m, n = indices[: len(batch)], indices[len(batch) :][: len(rows)], indices[len(batch) + len(rows) :]
    inner = ReduceAxes()
    k = (inner.index(a[-1]),)
    x = Load(left, (*broadcast_indices(a[:-2], outer, batch), *m, *k))
    y = Load(right, (*broadcast_indices(b[:-2], outer, batch), *k, *n))
    return Product(
        axes, inner, x, y, len(batch) if rows else None, len(batch) + len(rows) if columns else None
    )


def _matmul(call: OperatorCall) -> None:
    """Short floats are multiplied and added in f32, and rounded once."""
    left, right = call.value(0), call.value(1)
    dtype = call.dtype(left, right)
    if dtype not in (DType.F16, DType.BF16):
        float_operands(call, left, right)
    found = product(call, left, right)
    if not dtype.is_stored_only:
        return call.emit(reduced(found.axes, found.inner, "sum", apply("mul", found.left, found.right)))
    factors = (Cast(found.left, DType.F32), Cast(found.right, DType.F32))
    total = call.intermediate(reduced(found.axes, found.inner, "sum", apply("mul", *factors)), "sum")
    rounded = Cast(Load(total, at(found.axes)), dtype)
    return call.emit(Compute(found.axes, (), None, rounded, dtype))


def _gemm(call: OperatorCall) -> None:
    """Emit y = alpha * a @ b + beta * c, with a and b perhaps transposed."""
    left, right = call.value(0), call.value(1)
    float_operands(call, left, right)
    turned = bool(call.integer("transA")), bool(call.integer("transB"))
    a, b = call.shape(0), call.shape(1)
    if len(a) != 2 or len(b) != 2:
        call.reject(f"multiplies shapes {list(a)} and {list(b)} instead of matrices")
    (m, k), (inner_b, n) = a[::-1] if turned[0] else a, b[::-1] if turned[1] else b
    if k != inner_b:
        call.reject(f"multiplies shapes {list(a)} and {list(b)}, which do not fit")
    axes = output_axes((m, n))
    inner = ReduceAxes()
    row, column = at(axes)
    step = inner.index(k)
    x, y = _element(left, row, step, turned[0]), _element(right, step, column, turned[1])
    plain = reduced(axes, inner, "sum", apply("mul", x, y))
    alpha, beta = call.number("alpha", 1.0), call.number("beta", 1.0)
    added = call.has(2) and beta != 0
    if alpha == 1 and not added:
        return call.emit(plain)
    value: Expr = Load(call.intermediate(plain, "product"), at(axes))
    value = value if alpha == 1 else apply("mul", value, Const(alpha))
    if added:
        value = apply("add", value, _addend(call, axes, beta))
    return call.emit(Compute(axes, (), None, value))


def _addend(call: OperatorCall, axes: tuple[Axis, ...], beta: float) -> Expr:
    name = call.value(2)
    float_operands(call, name)
    shape = tuple(a.size for a in axes)
    if broadcast(call, [shape, call.shape(2)]) != shape:
        call.reject(f"adds shape {list(call.shape(2))} to a product of shape {list(shape)}")
    load = broadcast_load(call, name, axes)
    return load if beta == 1 else apply("mul", load, Const(beta))


def _element(matrix: str, row: Index, column: Index, transposed: bool) -> Load:  # noqa: FBT001 (as in ONNX)
    return Load(matrix, (column, row) if transposed else (row, column))


LOWERINGS: Mapping[str, Lowering] = {"MatMul": _matmul, **in_single({"Gemm": _gemm})}
