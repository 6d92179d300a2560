"""Turn: local buffers lie along the lanes of the vectors that write and read them."""

from __future__ import annotations

import pytest

from compiler.evaluate import reference_outputs
from compiler.index import Index
from compiler.loop.ir import Let, LoopKind, Stmt, block
from compiler.loop.promote import promote
from compiler.loop.turn import turn
from compiler.pipeline import build_nest
from compiler.space.rules import build_space
from compiler.target import PRESETS, native_target
from tests.compiler.execute import relative_error, run_native
from tests.compiler.loop.test_promote import loop, nest, read, store
from tests.compiler.workloads import mean, random_operands

UNROLLED, VECTOR = LoopKind.UNROLLED, LoopKind.VECTOR
ACROSS = loop("i", 2, UNROLLED, loop("v", 8, VECTOR, store("v", "i")))
SHIFTED = loop("i", 2, UNROLLED, Let("p", Index.of("i"), 2, loop("v", 8, VECTOR, read("v", "p"))))


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        pytest.param(ACROSS, (2, 8), id="written across"),
        pytest.param(block(ACROSS, SHIFTED), (2, 8), id="and read so"),
        pytest.param(
            block(ACROSS, loop("k", 8, UNROLLED, read("k", 0))), (2, 8), id="single elements follow"
        ),
        pytest.param(
            block(ACROSS, loop("w", 2, VECTOR, read(0, "w"))), (8, 2), id="read along the other way"
        ),
    ],
)
def test_the_lanes_are_innermost(body: Stmt, shape: tuple[int, ...]) -> None:
    turned = turn(nest(body, 8, 2))
    assert turned.by_name["t"].shape == shape
    if shape == (2, 8) and body is ACROSS:
        assert promote(turned).by_name["t"].scope == "register"
    assert turn(turned) is turned


def test_partial_sums_of_a_few_columns_stay_in_registers() -> None:
    """Two turns of four vectors: as the reduction was factored, elements of both lie side by side."""
    workload = mean(1024, 64)
    space = build_space(workload, PRESETS["x86-64-v4"], 1)
    values = {**space.values(space.default), "block": 4, "accumulators": 2}
    assert {b.scope for b in build_nest(workload, space.build(values)).buffers if b.role is None} == {
        "register"
    }
    operands = random_operands(workload)
    here = build_space(workload, native_target(), 1)
    got = run_native(workload, here.build({**here.values(here.default), "accumulators": 2}), operands, 1)
    assert relative_error(got, reference_outputs(workload, operands)["y0"]) < 1e-5
