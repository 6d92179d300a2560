"""What the map of a tile reads of a large operand is fetched while the tile is summed up, where that pays."""

from __future__ import annotations

import pytest

from compiler.codegen.streamed import streamed_after
from compiler.codegen.texts import nest_ir
from compiler.evaluate import reference_outputs
from compiler.loop.ir import Block, walk_statements
from compiler.pipeline import build_nest
from compiler.scalar import Expr, Load, apply
from compiler.space.rules import build_space
from compiler.target import PRESETS, native_target
from compiler.workload.ir import Workload
from tests.compiler.execute import native_outputs, stored_error
from tests.compiler.workloads import (
    anchored,
    at,
    convolution,
    integers,
    looked_up,
    operand,
    random_operands,
)

V3 = PRESETS["x86-64-v3"]
LARGE = convolution(40, 64, 128, 1)
"""With a residual that does not fit in the second cache of the Target."""


def product_with_positions(rows: int, inner: int, columns: int) -> Workload:
    """To each element of a product one of its row of a table is added, as attention does with relative positions."""

    def finish(value: Expr) -> Expr:
        place = Load("i0", at("s0", "s1"))
        return apply("add", value, looked_up("v0", columns, place, lambda v: Load("x1", at("s0", v))))

    body = apply("mul", Load("x0", at("s0", "r0")), Load("c0", at("r0", "s1")))
    operands = (
        operand("x0", rows, inner),
        operand("c0", inner, columns, constant=True),
        operand("x1", rows, columns),
        integers("i0", rows, columns),
    )
    return anchored((rows, columns), (inner,), "sum", body, operands, finish)


POSITIONS = product_with_positions(640, 256, 256)


def streamed(workload: Workload) -> set[str]:
    space = build_space(workload, V3, 1)
    nest = build_nest(workload, space.schedule(space.default))
    blocks = [s for s in walk_statements(nest.body) if isinstance(s, Block)]
    return {name for b in blocks for name in streamed_after(b.statements, nest.by_name, V3)[1]}


def test_the_residual_is_fetched_and_nothing_else() -> None:
    assert streamed(LARGE) == {"x1"}


def test_what_is_looked_up_is_at_no_place_that_is_known_before() -> None:
    assert streamed(POSITIONS) == {"i0"}


@pytest.mark.parametrize(
    "workload",
    [
        pytest.param(convolution(8, 64, 128, 1), id="it may be near"),
        pytest.param(convolution(80, 4, 64, 1), id="the sum is over before it arrives"),
    ],
)
def test_nothing_is_fetched(workload: Workload) -> None:
    assert streamed(workload) == set()


def test_each_line_of_a_tile_is_fetched_once() -> None:
    space = build_space(LARGE, V3, 1)
    values = {**space.values(space.default), "rows": 4, "vectors": 3, "unroll": 1}
    ir = nest_ir(build_nest(LARGE, space.build(values)), V3)
    whole, *_ = [part for part in ir.split("call void @llvm.prefetch")[1:] if "fma" in part]
    before = ir[: ir.index(whole)].rsplit("br ", 1)[-1]
    assert before.count("call void @llvm.prefetch") == 4 * 2  # 96 bytes of a row begin two lines


@pytest.mark.parametrize("workload", [LARGE, POSITIONS], ids=["residual", "positions"])
def test_results_are_right(workload: Workload) -> None:
    space = build_space(workload, native_target(), 1)
    operands = random_operands(workload)
    found = native_outputs(workload, space.schedule(space.default), operands)
    expected = reference_outputs(workload, operands)
    assert stored_error(workload, found, expected) < 1e-5
