"""A result takes the memory of an operand that only the statement that stores it reads, where it stores."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compiler.codegen.texts import nest_ir
from compiler.dtype import DType
from compiler.index import Index
from compiler.loop.in_place import in_place, shared
from compiler.pipeline import build_nest
from compiler.scalar import Load, apply
from compiler.space.rules import build_space
from compiler.target import PRESETS
from compiler.workload.ir import Workload
from tests.compiler.workloads import convolution, matmul, padded_convolution

V3 = PRESETS["x86-64-v3"]


def found(workload: Workload) -> dict[str, tuple[str, ...]]:
    space = build_space(workload, V3, 1)
    return in_place(build_nest(workload, space.schedule(space.default)))


def with_addend(workload: Workload, load: Load) -> Workload:
    anchor, epilogue = workload.stages
    changed = replace(epilogue, body=apply("add", epilogue.body, load))
    return replace(workload, stages=(anchor, changed))


PADDED = padded_convolution(8, 5, 5, 3)
SUMMED = convolution(9, 32, 40, 1)
"""With a residual `x1`."""


@pytest.mark.parametrize(
    "workload",
    [
        pytest.param(SUMMED, id="a tile"),
        pytest.param(convolution(9, 3, 37, 3), id="windows and edges"),
        pytest.param(convolution(14, 64, 64, 3), id="another algorithm"),
    ],
)
def test_a_residual_may_be_stored_over(workload: Workload) -> None:
    assert found(workload) == {"y0": ("x1",)}


def test_an_operand_that_the_sum_reads_too_may_not() -> None:
    assert found(with_addend(PADDED, Load("x0", PADDED.stages[-1].target_indices))) == {}


def test_an_operand_that_is_read_elsewhere_may_not() -> None:
    turned = tuple(Index.of(name) for name in ("s1", "s0", "s2"))
    assert found(with_addend(SUMMED, Load("x1", turned))) == {}


def test_an_operand_of_another_size_or_type_may_not() -> None:
    operands = tuple(
        replace(o, shape=(o.shape[0] + 1, *o.shape[1:])) if o.name == "x1" else o for o in SUMMED.operands
    )
    assert found(replace(SUMMED, operands=operands)) == {}
    half = tuple(replace(o, dtype=DType.F16) if o.name == "x1" else o for o in SUMMED.operands)
    assert found(replace(SUMMED, operands=half)) == {}
    assert found(matmul(8, 16, 32)) == {}


def test_only_what_may_share_memory_is_not_told_apart() -> None:
    space = build_space(SUMMED, V3, 1)
    nest = build_nest(SUMMED, space.schedule(space.default))
    assert shared(nest) == {"x1", "y0"}
    head = next(line for line in nest_ir(nest, V3).splitlines() if line.startswith("define void @k_"))
    assert head.count("ptr noalias") == len(nest.params) - 2
