"""Dimensions that are read block by block become two, and compute the same."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.evaluate import reference_outputs
from compiler.index import Index
from compiler.scalar import Load, apply
from compiler.symbol import axis
from compiler.workload.blocks import Blocks, find_blocks
from compiler.workload.ir import Stage, Workload
from compiler.workload.split_blocks import split_blocks
from tests.compiler.workloads import KINDS, at, operand, random_operands


def gated(rows: int, half: int, *places: Index) -> Workload:
    """`y[i, j]` is the product of what a matrix product has at several places of row i."""
    i, n, k, j = axis("i", rows), axis("n", 2 * half), axis("k", 5), axis("j", half)
    product = apply("mul", Load("x0", at("i", "k")), Load("c0", at("k", "n")))
    anchor = Stage("anchor", (i, n), (k,), "sum", product, "t0", at("i", "n"))
    first, second = (Load("t0", at("i", place)) for place in places)
    epilogue = Stage("epilogue", (i, j), (), None, apply("mul", first, second), "y0", at("i", "j"))
    operands = operand("x0", rows, 5), operand("c0", 5, 2 * half, constant=True)
    return Workload(
        operands, (operand("t0", rows, 2 * half),), (operand("y0", rows, half),), (anchor, epilogue)
    )


J = Index.of("j")


@pytest.mark.parametrize("places", [(J, J + 6), (J * 2, J * 2 + 1), (J + 6, J)])
def test_the_stages_share_the_axis_inside_a_block(places: tuple[Index, Index]) -> None:
    workload = gated(3, 6, *places)
    split = split_blocks(workload)
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    np.testing.assert_allclose(reference_outputs(split, operands)["y0"], expected, atol=1e-12)
    anchor, epilogue = split.stages
    assert [a.size for a in anchor.axes] == [3, 2, 6]
    assert {a.name for a in epilogue.axes} < {a.name for a in anchor.axes}
    assert split.temporaries[0].sizes == (3, 2, 6)
    assert split_blocks(split) is split


@pytest.mark.parametrize("places", [(J, J + 5), (J * 2, J + 6), (J * 3, J * 3)])
def test_places_that_are_no_blocks_are_left_alone(places: tuple[Index, Index]) -> None:
    workload = gated(3, 6, *places)
    assert split_blocks(workload) is workload


def test_a_workload_without_blocks_is_left_alone() -> None:
    assert split_blocks(KINDS["convolution"]) is KINDS["convolution"]


def test_blocks_follow_each_other_or_are_interleaved() -> None:
    assert find_blocks([J, J + 8], 16, {"j": 8}) == Blocks("j", 8, 2, 1)
    assert find_blocks([J * 2 + 1], 16, {"j": 8}) == Blocks("j", 8, 2, 2)
    assert find_blocks([J, J + 4], 16, {"j": 8}) is None
    assert find_blocks([J], 8, {"j": 8}) is None
    assert find_blocks([J + 16], 16, {"j": 8}) is None
