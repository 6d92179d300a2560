"""Axes that are read by quotient and remainder become two, and compute the same."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from compiler.choice import default_schedule
from compiler.codegen.texts import nest_ir
from compiler.dtype import DType
from compiler.evaluate import reference_outputs
from compiler.index import FloorDiv, Index, Mod
from compiler.pipeline import build_nest
from compiler.scalar import Load
from compiler.target import PRESETS, native_target
from compiler.workload.canonical import canonicalise
from compiler.workload.ir import Workload, stage_loads
from compiler.workload.partition import partition
from compiler.workload.split_axes import split_axes
from compiler.workload.verify import verify_program
from tests.compiler.execute import relative_error, run_native
from tests.compiler.workload.graphs import GraphBuilder
from tests.compiler.workloads import KINDS, grouped, mapped, operand, random_operands


def shuffle(channels: int, groups: int) -> Workload:
    """The channel shuffle of a ShuffleNet, as one gather."""
    source = (Index.of("s1") % groups) * (channels // groups) + Index.of("s1") // groups
    return mapped(Load("x0", (Index.of("s0"), source)), (5, channels), (operand("x0", 5, channels),))


def quotients(workload: Workload) -> list[Index]:
    loads = [load for stage in workload.stages for load in stage_loads(stage)]
    return [
        i for load in loads for i in load.indices if any(isinstance(a, FloorDiv | Mod) for a, _ in i.terms)
    ]


@pytest.mark.parametrize(
    "workload", [grouped(6, 3, 12, 18), grouped(5, 2, 8, 40), shuffle(24, 4), shuffle(60, 3)]
)
def test_the_split_workload_computes_the_same(workload: Workload) -> None:
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    split = split_axes(workload)
    assert quotients(workload)
    assert not quotients(split)
    assert split_axes(split) is split
    np.testing.assert_allclose(reference_outputs(split, operands)["y0"], expected, atol=1e-12)
    space_default = default_schedule(split, native_target(), 2)
    assert relative_error(run_native(split, space_default, operands, 2), expected) < 1e-5


def test_a_workload_without_quotients_is_left_alone() -> None:
    assert split_axes(KINDS["convolution"]) is KINDS["convolution"]


def test_an_axis_spread_over_a_few_neighbours_each_stays_whole() -> None:
    """A vector takes them from one load; beside a remainder, or many to a neighbour, they are loops of their own."""
    source = operand("x0", 5, 64)

    def reads(column: Index, width: int) -> Workload:
        return mapped(Load("x0", (Index.of("s0"), column)), (5, width), (source,))

    spread = reads(Index.of("s1") // 2, 128)
    assert split_axes(spread) is spread
    for other in (
        reads(Index.of("s1") // 32, 2048),
        reads((Index.of("s1") % 4) * 16 + Index.of("s1") // 4, 64),
    ):
        assert split_axes(other) is not other
        assert not quotients(split_axes(other))


@pytest.mark.parametrize(
    ("workload", "whole"),
    [
        pytest.param(grouped(6, 8, 32, 32), True, id="four channels each"),
        pytest.param(grouped(6, 4, 32, 32), True, id="eight channels each"),
        pytest.param(grouped(6, 8, 16, 32), True, id="fewer of the input"),
        pytest.param(grouped(6, 2, 32, 32), False, id="a vector of channels each"),
        pytest.param(grouped(6, 5, 30, 30), False, id="groups across the end of a vector"),
        pytest.param(grouped(6, 8, 64, 32), False, id="more of the input: further apart than a vector"),
    ],
)
def test_small_groups_share_vectors(workload: Workload, whole: bool) -> None:  # noqa: FBT001
    assert (split_axes(workload) is workload) is whole


@pytest.mark.parametrize(("groups", "whole"), [(16, True), (8, False), (4, False)])
def test_groups_of_bytes_keep_what_instructions_multiply(groups: int, whole: bool) -> None:  # noqa: FBT001
    """Several products at once, of data that all lanes share."""
    floats = grouped(6, groups, 32, 32)
    anchor, epilogue = floats.stages
    workload = replace(floats, stages=(replace(anchor, dtype=DType.I32), epilogue))
    assert (split_axes(workload) is workload) is whole


@pytest.mark.parametrize("name", sorted(t.name for t in PRESETS.values() if t.vector_bytes > 4))
@pytest.mark.parametrize("per_group", [2, 4, 8])
def test_the_lanes_of_small_groups_are_picked_out_of_one_vector(per_group: int, name: str) -> None:
    """Whole vectors are loaded, and none of them lane by lane."""
    target = PRESETS[name]
    workload, lanes = grouped(6, 48 // per_group, 48, 48), target.lanes(4)
    ir = nest_ir(build_nest(workload, default_schedule(workload, target, 1)), target)
    assert not re.search(r"insertelement <\d+ x float>.*, i64 [1-9]", ir)
    assert set(re.findall(r"load <(\d+) x float>", ir)) == {str(lanes)}


def test_the_lanes_of_a_group_share_what_they_read() -> None:
    target = PRESETS["x86-64-v4"]
    workload = canonicalise(grouped(6, 2, 32, 64)).workload
    ir = nest_ir(build_nest(workload, default_schedule(workload, target, 1)), target)
    gathers = [line for line in ir.splitlines() if "insertelement" in line and ", i64 0" not in line]
    assert not gathers


def test_an_axis_that_another_stage_reduces_stays_whole() -> None:
    b = GraphBuilder()
    grouped_map = b.conv(b.input("x", 1, 2, 1, 1), 4, groups=2)
    program = partition(b.graph(b.conv(grouped_map, 1)))
    verify_program(program)
    assert len(program.subgraphs) == 1
