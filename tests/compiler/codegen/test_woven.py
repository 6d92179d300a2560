"""Between products of matrices the lines come nearer that the tile's map stores to: each row once, none beyond."""

from __future__ import annotations

from itertools import product

import pytest

from compiler.codegen.matrices import MatrixNest, matrix_nests
from compiler.codegen.texts import nest_ir
from compiler.codegen.woven import woven_rows
from compiler.evaluate import reference_outputs
from compiler.index import Index
from compiler.loop.ir import Block, For, LoopNest, Stmt, walk_statements
from compiler.pipeline import build_nest
from compiler.space.part_phases import ERROR
from compiler.space.rules import build_space
from compiler.target import native_target
from compiler.workload.ir import Workload
from tests.compiler.execute import relative_error, run_native
from tests.compiler.schedule.test_matrices import WITH_MATRICES
from tests.compiler.schedule.test_parts import NEEDS
from tests.compiler.workloads import convolution, matmul, padded_convolution, random_operands

LARGE = matmul(500, 128, 96)
"""Its result does not fit in the first cache."""


def nest_of(workload: Workload, **knobs: object) -> LoopNest:
    space = build_space(workload, WITH_MATRICES, 1)
    plan = next(a for a in (space.default, *space.starts) if space.values(a)["algorithm"] == "parts")
    return build_nest(workload, space.build({**space.values(plan), **knobs}))


def tiles(nest: LoopNest) -> list[tuple[MatrixNest, tuple[Stmt, ...]]]:
    """The products, and what follows them."""
    blocks = [s.statements for s in walk_statements(nest.body) if isinstance(s, Block)]
    return [
        (matrices[0], after[1:])
        for statements in blocks
        for after in (statements[place:] for place in range(len(statements)))
        if (matrices := list(matrix_nests(after[0]))) and matrices[0].root is after[0]
    ]


def fetched(nest: MatrixNest, after: tuple[Stmt, ...]) -> list[int]:
    """Rows, in the order in which the steps of the products fetch them."""
    loops: list[For] = []
    stmt: Stmt = nest.root
    while stmt is not nest.body and isinstance(stmt, For):
        loops.append(stmt)
        stmt = stmt.body
    rows = woven_rows(nest, after)
    found = []
    for numbers in product(*(range(loop.extent.limit) for loop in loops)):
        at = {loop.var: Index.of(n) for loop, n in zip(loops, numbers, strict=True)}
        found += [let.value.substitute(at).simplify({}).const for let in rows]
    return found


@pytest.mark.parametrize(
    ("workload", "rows"),
    [
        pytest.param(LARGE, 32, id="more rows than steps"),
        pytest.param(padded_convolution(30, 64, 48, 3), 15, id="more steps than rows"),
        pytest.param(matmul(500, 128, 32), 16, id="one step"),
    ],
)
def test_the_steps_fetch_every_row_of_a_tile_and_none_beyond(workload: Workload, rows: int) -> None:
    found = tiles(nest_of(workload, rows=rows))
    assert found
    for nest, after in found:
        (loop,) = after
        assert isinstance(loop, For)
        assert set(fetched(nest, after)) == set(range(loop.extent.limit))


def test_a_long_sum_fetches_nothing() -> None:
    assert [woven_rows(nest, after) for nest, after in tiles(nest_of(matmul(64, 64, 800)))] == [[]]


def prefetches(workload: Workload) -> tuple[int, int]:
    """In the text, to be stored to and to be read."""
    text = nest_ir(nest_of(workload), WITH_MATRICES)
    calls = [line for line in text.splitlines() if "call void @llvm.prefetch" in line]
    stored = sum("i32 1, i32 3" in line for line in calls)
    return stored, len(calls) - stored


def test_results_and_residuals_are_fetched_if_they_may_be_far() -> None:
    stored, read = prefetches(convolution(40, 64, 128, 1))
    assert stored == read > 0
    stored, read = prefetches(LARGE)
    assert stored > read == 0
    assert prefetches(matmul(32, 16, 96)) == (0, 0)


@NEEDS
@pytest.mark.parametrize("threads", [1, 2])
def test_results_are_right(threads: int) -> None:
    workload = convolution(40, 64, 128, 1)
    space = build_space(workload, native_target(), threads)
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    plan = space.schedule(space.default)
    assert relative_error(run_native(workload, plan, operands, threads=threads), expected) < ERROR
