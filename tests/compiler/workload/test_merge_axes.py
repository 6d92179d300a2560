from __future__ import annotations

import pytest

from compiler.dtype import DType
from compiler.index import Index
from compiler.scalar import Bound, Const, Expr, Guard, Load, Pick, apply, loads
from compiler.symbol import axis
from compiler.workload.ir import Operand, Stage, Workload
from compiler.workload.merge_axes import merge_axes
from tests.compiler.workload.graphs import load


def _map(body: Expr, **shapes: tuple[int, ...]) -> Workload:
    """y[h, w, c] = body, over extents 4, 5, 6."""
    axes = (axis("h", 4), axis("w", 5), axis("c", 6))
    operands = [Operand(name, tuple(map(Index.of, shape)), DType.F32) for name, shape in shapes.items()]
    stage = Stage("map", axes, (), None, body, "y", load("y", "h", "w", "c").indices)
    return Workload(tuple(o for o in operands if o.name != "y"), (), tuple(operands[-1:]), (stage,))


def _extents(body: Expr, **shapes: tuple[int, ...]) -> list[int]:
    return [a.size for a in merge_axes(_map(body, **shapes)).stages[0].axes]


def test_elementwise_maps_become_one_dimensional() -> None:
    merged = merge_axes(_map(load("x", "h", "w", "c"), x=(4, 5, 6), y=(4, 5, 6)))
    assert [a.size for a in merged.stages[0].axes] == [120]
    assert merged.buffers["x"].sizes == merged.buffers["y"].sizes == (120,)
    assert merged.stages[0].body == load("x", "h")


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        (load("x", Index.of("h") * 30 + Index.of("w") * 6 + "c"), (120,)),
        (load("x", "h", Index.of("w") * 6 + "c"), (4, 30)),
        (load("x", Index.of("h") * 5 + "w", "c"), (20, 6)),
        (load("x", 0, Index.of("h") * 30 + Index.of("w") * 6 + "c", 0), (1, 121, 2)),
    ],
)
def test_reshapes_of_what_is_read_leave_one_axis(body: Load, shape: tuple[int, ...]) -> None:
    merged = merge_axes(_map(body, x=shape, y=(4, 5, 6)))
    (stage,) = merged.stages
    assert [a.size for a in stage.axes] == [120]
    assert stage.target_indices == (Index.of("h"),)
    (read,) = loads(stage.body)
    flat = sum((i * s for i, s in zip(read.indices, merged.buffers["x"].strides, strict=True)), Index())
    assert flat.coefficient("h") == merged.buffers["x"].elements // 120


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        (load("x", Index.of("h") * 36 + Index.of("w") * 6 + "c"), (144,)),  # room between rows
        (load("x", Index.of("w") * 24 + Index.of("h") * 6 + "c"), (120,)),  # another order
        (load("x", "h", Index.of("w") * 6 + "c"), (4, 36)),
        (load("x", Index.of("h") // 2, Index.of("w") * 6 + "c"), (2, 30)),
    ],
)
def test_what_does_not_walk_on_stays_apart(body: Expr, shape: tuple[int, ...]) -> None:
    assert _extents(body, x=shape, y=(4, 5, 6))[0] == 4


def test_a_bias_keeps_channels_apart() -> None:
    body = apply("add", load("x", "h", "w", "c"), load("b", "c"))
    assert _extents(body, x=(4, 5, 6), b=(6,), y=(4, 5, 6)) == [20, 6]


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        (load("x", "h", Index.of("w") + 1, "c"), (4, 7, 6)),  # a border
        (load("x", "h", "w", "c"), (4, 6, 6)),  # not all of the dimension
        (load("x", "h", Index.of("w") * 2, "c"), (4, 9, 6)),  # a stride
        (load("x", "w", "h", "c"), (5, 4, 6)),  # another order
        (Guard((Bound(Index.of("w"), 1, 5),), load("x", "h", "w", "c"), Const(0.0)), (4, 5, 6)),
        (apply("add", load("x", "h", "w", "c"), load("x", 0, "w", "c")), (4, 5, 6)),  # read in two ways
        (apply("add", load("x", "h", "w", "c"), load("x", 0, 0, "c")), (4, 5, 6)),
        (apply("mul", load("x", "h", "w", "c"), Pick((1.0, 2.0, 3.0, 4.0, 5.0), Index.of("w"))), (4, 5, 6)),
        (apply("add", load("x", "h", "w", 0, 0), load("x", 0, 0, "h", "w")), (4, 5, 4, 5)),
    ],
)
def test_height_and_width_stay_apart(body: Expr, shape: tuple[int, ...]) -> None:
    assert _extents(body, x=shape, y=(4, 5, 6))[0] == 4


def test_reduction_axes_merge_too() -> None:
    x = Operand("x", tuple(map(Index.of, (4, 5, 6))), DType.F32)
    y = Operand("y", (Index.of(6),), DType.F32)
    reduce_axes = (axis("h", 4), axis("w", 5))
    stage = Stage(
        "anchor", (axis("c", 6),), reduce_axes, "sum", load("x", "h", "w", "c"), "y", load("y", "c").indices
    )
    merged = merge_axes(Workload((x,), (), (y,), (stage,)))
    assert [a.size for a in merged.stages[0].reduce_axes] == [20]
    assert merged.buffers["x"].sizes == (20, 6)


def test_nothing_to_merge_gives_the_same_object() -> None:
    workload = _map(load("x", "c", "w", "h"), x=(6, 5, 4), y=(4, 5, 6))
    assert merge_axes(workload) is workload
