"""Products of overlapping windows in the order of what they read."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from compiler.codegen.texts import nest_assembly
from compiler.dtype import DType
from compiler.evaluate import reference_outputs
from compiler.index import Index
from compiler.loop.interpreter import interpret
from compiler.loop.ir import Buffer, Extent, For, If, LoopKind, LoopNest, Stmt, Store, block, walk_statements
from compiler.loop.skew import skew
from compiler.pipeline import build_nest
from compiler.scalar import Apply, Bound, Const, Guard, Load, apply
from compiler.schedule.schedule import Schedule
from compiler.space.rules import build_space
from compiler.target import PRESETS, Target
from compiler.workload.ir import Workload
from tests.compiler.execute import relative_error, run_interpreted, run_native
from tests.compiler.workloads import (
    anchored,
    at,
    depthwise,
    operand,
    padded_convolution,
    random_operands,
    windows,
)

V3 = replace(PRESETS["x86-64-v3"], l1_bytes=32 << 10, l2_bytes=512 << 10)
TINY = replace(V3, l1_bytes=4 << 10)
"""So that a small image is a wide one."""
ROWS, LANES = 5, 4


def scheduled(workload: Workload, target: Target = V3, **knobs: int | str) -> Schedule:
    space = build_space(workload, target, 1)
    values = {**space.values(space.default), **knobs}
    assert space.legal(values), values
    return space.build(values)


def padded_depthwise(size: int, channels: int, kernel: int, dilation: int = 1) -> Workload:
    """Channels-last, with zeros around the image, which are tested for."""
    pad = dilation * (kernel - 1) // 2
    places = [Index.of(f"s{d}") + Index.of(f"r{d}") * dilation - pad for d in range(2)]
    bounds = tuple(Bound(place, 0, size) for place in places)
    data = Guard(bounds, Load("x0", (*places, Index.of("s2"))), Const(0.0))
    body = apply("mul", data, Load("c0", at("s2", "r0", "r1")))
    operands = (operand("x0", size, size, channels), operand("c0", channels, kernel, kernel, constant=True))
    return anchored((size, size, channels), (kernel, kernel), "sum", body, operands)


def skewed(workload: Workload, schedule: Schedule) -> bool:
    nest = build_nest(workload, schedule)
    return any(isinstance(s, For) and "+" in s.var for s in walk_statements(nest.body))


@pytest.mark.parametrize("tile", [(4, 1, 2), (2, 4, 1), (3, 2, 1), (1, 3, 2)])
@pytest.mark.parametrize(
    "workload",
    [
        pytest.param(padded_depthwise(9, 72, 3), id="3x3"),
        pytest.param(padded_depthwise(9, 72, 5), id="5x5"),
        pytest.param(padded_depthwise(11, 72, 3, dilation=2), id="dilated"),
        pytest.param(depthwise(7, 72), id="nothing around the image"),
    ],
)
def test_values_are_what_they_would_be(workload: Workload, tile: tuple[int, int, int]) -> None:
    rows, beside, vectors = tile
    schedule = scheduled(workload, TINY, algorithm="down", rows=rows, beside=beside, vectors=vectors)
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    assert skewed(workload, schedule)
    assert relative_error(run_native(workload, schedule, operands, target=V3), expected) < 1e-5
    if tile == (2, 4, 1):
        assert relative_error(run_interpreted(workload, schedule, operands), expected) < 1e-5


def line(taps: int, dilation: int, *, tested: bool) -> LoopNest:
    """Windows along a line, of which only some taps count if `tested`."""
    place = Index.of("r") + Index.of("k") * dilation
    total = Load("t", at("r", "l"))
    product = Apply("mul", (Load("x", (place, Index.of("l"))), Load("w", at("k", "l"))))
    stmt: Stmt = Store("t", total.indices, Apply("add", (total, product)))
    stmt = For("r", Extent(ROWS), LoopKind.UNROLLED, For("l", Extent(LANES), LoopKind.VECTOR, stmt))
    if tested:
        stmt = If(Bound(Index.of("k") + "o", 0, 3), stmt, block())
    stmt = For("k", Extent(taps), LoopKind.UNROLLED, stmt)

    def each(inner: Store) -> Stmt:
        return For("r", Extent(ROWS), LoopKind.UNROLLED, For("l", Extent(LANES), LoopKind.VECTOR, inner))

    first, last = each(Store("t", total.indices, Const(0.0))), each(Store("y", at("o", "r", "l"), total))
    shapes = {"x": (ROWS + dilation * (taps - 1), LANES), "w": (taps, LANES), "y": (2, ROWS, LANES)}
    roles = {"x": "input", "w": "input", "y": "output"}
    buffers = [Buffer(n, shape, DType.F32, "global", roles[n]) for n, shape in shapes.items()]  # type: ignore[arg-type]
    own = Buffer("t", (ROWS, LANES), DType.F32, "register")
    body = For("o", Extent(2), LoopKind.SERIAL, block(first, stmt, last))
    return LoopNest("line", (*buffers, own), body)


@pytest.mark.parametrize(
    "nest",
    [
        line(taps, dilation, tested=tested)
        for tested in (False, True)
        for taps, dilation in ((3, 1), (2, 3), (7, 1), (3, ROWS - 1))
    ],
)
def test_each_sum_keeps_its_order(nest: LoopNest) -> None:
    made = skew(nest)
    assert made is not nest
    assert skew(made) is made
    rng = np.random.default_rng(0)
    given = {
        b.name: rng.standard_normal([int(str(n)) for n in b.shape]).astype(np.float32)
        for b in nest.buffers
        if b.role == "input"
    }
    found = []
    for version in (nest, made):
        arrays = {**given, "y": np.full((2, ROWS, LANES), np.nan, np.float32)}
        interpret(version, arrays)
        found.append(arrays["y"])
    np.testing.assert_array_equal(found[0], found[1])


def test_windows_that_do_not_overlap_stay() -> None:
    nest = line(3, ROWS, tested=False)
    assert skew(nest) is nest


@pytest.mark.parametrize(
    "workload",
    [
        pytest.param(padded_convolution(14, 32, 64, 3), id="all channels read the same"),
        pytest.param(
            windows(14, 512, taps=3, stride=1, reducer="max", outside=float("-inf")), id="no product"
        ),
        pytest.param(depthwise(14, 512, 3), id="nothing overlaps"),
    ],
)
def test_nothing_else_is_skewed(workload: Workload) -> None:
    assert not skewed(workload, scheduled(workload))


@pytest.mark.parametrize("size", [14, 28])
def test_tiles_have_no_tests_and_keep_in_registers_what_they_share(size: int) -> None:
    """The longest piece of code is a whole tile away from the borders; LLVM kept much of it on the stack."""
    workload = padded_depthwise(size, 192, 3)
    text = nest_assembly(build_nest(workload, scheduled(workload)), V3)
    pieces = [piece.splitlines() for piece in re.split(r"^\.LBB\w+:", text, flags=re.MULTILINE)]
    products = [[line for line in piece if "vfmadd" in line or "vmulps" in line] for piece in pieces]
    longest = max(range(len(pieces)), key=lambda i: len(products[i]))
    assert len(products[longest]) >= 72
    assert sum("rsp" in line and "ymm" in line for line in pieces[longest]) <= 4
