"""What the map of a tile reads of a large operand is fetched while the tile is summed up, where that pays."""

from __future__ import annotations

import pytest

from compiler.codegen.nest import emit_nest
from compiler.codegen.streamed import streamed_after
from compiler.evaluate import reference_outputs
from compiler.loop.ir import Block, walk_statements
from compiler.pipeline import build_nest
from compiler.space.rules import build_space
from compiler.target import PRESETS, native_target
from compiler.workload.ir import Workload
from tests.compiler.execute import native_outputs, stored_error
from tests.compiler.workloads import convolution, random_operands

V3 = PRESETS["x86-64-v3"]
LARGE = convolution(40, 64, 128, 1)
"""With a residual that does not fit in the second cache of the Target."""


def streamed(workload: Workload) -> set[str]:
    space = build_space(workload, V3, 1)
    nest = build_nest(workload, space.schedule(space.default))
    blocks = [s for s in walk_statements(nest.body) if isinstance(s, Block)]
    return {name for b in blocks for name in streamed_after(b.statements, nest.by_name, V3)[1]}


def test_the_residual_is_fetched_and_nothing_else() -> None:
    assert streamed(LARGE) == {"x1"}


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
    ir = emit_nest(build_nest(LARGE, space.build(values)), V3)
    whole, *_ = [part for part in ir.split("call void @llvm.prefetch")[1:] if "fma" in part]
    before = ir[: ir.index(whole)].rsplit("br ", 1)[-1]
    assert before.count("call void @llvm.prefetch") == 4 * 2  # 96 bytes of a row begin two lines


def test_results_are_right() -> None:
    space = build_space(LARGE, native_target(), 1)
    operands = random_operands(LARGE)
    found = native_outputs(LARGE, space.schedule(space.default), operands)
    expected = reference_outputs(LARGE, operands)
    assert stored_error(LARGE, found, expected) < 1e-5
