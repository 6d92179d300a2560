"""A copy whose elements are each read once is read at its source."""

from __future__ import annotations

import numpy as np

from compiler.evaluate import reference_outputs
from compiler.index import Index
from compiler.scalar import Expr, Load, apply
from compiler.symbol import axis
from compiler.workload.forward_copies import forward_copies
from compiler.workload.ir import Operand, Stage, Workload, stage_loads
from tests.compiler.workloads import at, operand, random_operands

C, H = 6, 5


def stage(name: str, axes: str, body: Expr, target: str, reduced: str = "") -> Stage:
    sizes = {"c": C, "h": H}
    return Stage(
        name=name,
        axes=tuple(axis(a, sizes[a]) for a in axes),
        reduce_axes=tuple(axis(a, sizes[a]) for a in reduced),
        reducer="sum" if reduced else None,
        body=body,
        target=target,
        target_indices=tuple(Index.of(a) for a in axes),
        dtype=operand("x0", 1).dtype,
    )


def centred(copied: Load, source: Operand) -> Workload:
    """What lies in a row of the copy, less their sum."""
    stages = (
        stage("copy", "ch", copied, "t0"),
        stage("total", "h", Load("t0", at("c", "h")), "t1", "c"),
        stage("map", "hc", apply("sub", Load("t0", at("c", "h")), Load("t1", at("h"))), "y0"),
    )
    return Workload((source,), (operand("t0", C, H), operand("t1", H)), (operand("y0", H, C),), stages)


def test_readers_of_a_transposition_read_its_source() -> None:
    before = centred(Load("x0", at("h", "c")), operand("x0", H, C))
    after = forward_copies(before)
    assert [s.target for s in after.stages] == ["t1", "y0"]
    assert [t.name for t in after.temporaries] == ["t1"]
    assert Load("x0", at("h", "c")) in stage_loads(after.stages[0])
    operands = random_operands(before)
    expected, got = (reference_outputs(w, operands)["y0"] for w in (before, after))
    np.testing.assert_array_equal(got, expected)
    assert forward_copies(after) is after


def test_what_repeats_elements_stays() -> None:
    before = centred(Load("x0", at("h")), operand("x0", H))
    assert forward_copies(before) is before


def test_a_copy_that_a_product_reads_again_and_again_stays() -> None:
    copy = stage("copy", "ch", Load("x0", at("h", "c")), "t0")
    product = apply("mul", Load("t0", at("r", "c")), Load("x1", at("r", "h")))
    total = Stage(
        name="total",
        axes=(axis("c", H), axis("h", 7)),
        reduce_axes=(axis("r", C),),
        reducer="sum",
        body=product,
        target="y0",
        target_indices=at("c", "h"),
        dtype=copy.dtype,
    )
    before = Workload(
        (operand("x0", H, C), operand("x1", C, 7)),
        (operand("t0", C, H),),
        (operand("y0", H, 7),),
        (copy, total),
    )
    assert forward_copies(before) is before
