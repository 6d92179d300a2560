from __future__ import annotations

import numpy as np
import pytest

from compiler.dtype import DType
from compiler.index import Index
from compiler.scalar import Load
from compiler.schedule.primitives import replay
from compiler.schedule.schedule import Schedule
from compiler.schedule.steps import Bind, LoopKind, Reorder, Split, Step
from compiler.symbol import axis
from compiler.target import LINE_BYTES, PAGE_BYTES
from compiler.workload.ir import Operand, Stage, Workload
from tuner.cost_model.concrete import concrete_nest
from tuner.cost_model.nest import Nests

ROW, COLUMN = Index.of("i"), Index.of("j")


def copy(shape: tuple[int, ...], indices: tuple[Index, ...], i: int, j: int) -> Workload:
    """y[i, j] = x[indices]."""
    operand = Operand("x", tuple(Index.of(n) for n in shape), DType.F32)
    result = Operand("y", (Index.of(i), Index.of(j)), DType.F32)
    stage = Stage("map", (axis("i", i), axis("j", j)), (), None, Load("x", indices), "y", (ROW, COLUMN))
    return Workload(operands=(operand,), temporaries=(), outputs=(result,), stages=(stage,))


def nests(workload: Workload, *steps: Step) -> Nests:
    return concrete_nest(replay(workload, Schedule(steps)), "map")


def vector(lanes: int) -> tuple[Step, ...]:
    """j in vectors."""
    return (Split("map", "j", lanes), Bind("map", "j.i", LoopKind.VECTOR))


def distinct(workload: Workload, shape: tuple[int, ...], i: int, j: int) -> int:
    """Elements of x that the first i rows and j columns read, counted."""
    (stage,) = workload.stages
    assert isinstance(stage.body, Load)
    rows, columns = np.indices((i, j))
    places = [np.broadcast_to(n.evaluate({"i": rows, "j": columns}), (i, j)) for n in stage.body.indices]
    return len(np.unique(np.ravel_multi_index(tuple(places), shape)))


@pytest.mark.parametrize(
    ("shape", "indices", "lanes"),
    [
        ((4, 96), (ROW, COLUMN), 8),
        ((6, 4, 16), (COLUMN // 16, ROW, COLUMN % 16), 8),  # panels of 16, as packed operands lie
        ((4, 2, 3, 16), (ROW, COLUMN // 48, (COLUMN % 48) // 16, COLUMN % 16), 16),
        ((4, 12, 8), (ROW, COLUMN % 12, (COLUMN // 12) % 8), 4),
    ],
)
def test_what_quotients_and_remainders_touch(
    shape: tuple[int, ...], indices: tuple[Index, ...], lanes: int
) -> None:
    workload = copy(shape, indices, 4, 96)
    found = nests(workload, *vector(lanes), Reorder("map", ("j.o", "i", "j.i")))
    counts = [distinct(workload, shape, *size) for size in ((4, 96), (4, lanes), (1, lanes), (1, 1))]
    assert found.elements(found.accesses[0])[0].tolist() == counts


def test_lanes_of_a_panel_lie_side_by_side() -> None:
    panels = nests(copy((6, 4, 16), (COLUMN // 16, ROW, COLUMN % 16), 4, 96), *vector(8))
    assert panels.strides(panels.accesses[0])[0].tolist() == [
        16,
        8 + 64 / 2,
        1,
    ]  # every other step leaves a panel
    apart = nests(copy((96, 4), (COLUMN, ROW), 4, 96), *vector(8))
    assert apart.strides(apart.accesses[0])[0].tolist() == [1, 32, 4]


def test_parts_that_lie_far_apart_are_no_more_than_they_are() -> None:
    """Four gates of a row: what lies between them is not read."""
    gates = nests(
        copy((1024,), (ROW * 256 + COLUMN,), 4, 256), *vector(8), Reorder("map", ("j.o", "i", "j.i"))
    )
    assert gates.elements(gates.accesses[0])[0].tolist() == [1024, 32, 8, 1]


@pytest.mark.parametrize(
    ("width", "ways"),
    [
        (1024, 64),  # a page: all lines in one set
        (256, 16),  # a quarter of one: in four
        (1040, 1),  # a page and a line: each in another one
        (16, 1),  # without a gap
    ],
)
def test_rows_a_power_of_two_apart_hold_more_of_a_cache_than_they_are(width: int, ways: int) -> None:
    """64 lines, one of each row; a cache that holds `ways` of a set holds them all."""
    found = nests(copy((64, width), (ROW, COLUMN), 64, 16))
    (read,) = (access for access in found.accesses if access.kind == "input")
    touched, held = found.line_bytes(read)[0, 0], found.held_bytes(read)[0, 0]
    assert touched == 64 * LINE_BYTES
    assert held == pytest.approx(ways * PAGE_BYTES, rel=0.1)
