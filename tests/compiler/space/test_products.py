"""Two products along the same rows: any schedule agrees, in the cache or in phases."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest
from onnx import helper

from compiler.errors import ScheduleError
from compiler.evaluate import reference_outputs
from compiler.index import Index
from compiler.loop.printer import print_nest
from compiler.loop.promote import local_bytes
from compiler.pipeline import build_nest, load_graph, lower
from compiler.scalar import Expr, Load, rewrite
from compiler.schedule.schedule import schedule_from_json, schedule_json
from compiler.space.product_errors import parts_errors
from compiler.space.products import Products
from compiler.space.rules import build_space
from compiler.space.space import Value
from compiler.target import PRESETS, native_target
from compiler.workload.ir import Workload
from tests.compiler.attention import attention, image_attention
from tests.compiler.execute import interpreted_outputs, native_outputs, stored_error
from tests.compiler.frontend.models import model as network
from tests.compiler.schedule.test_matrices import WITH_MATRICES
from tests.compiler.workloads import KINDS, random_operands
from tests.slow import slow

SHAPES = {
    "even": (2, 16, 24, 8),
    "ragged": (3, 13, 21, 10),
    "several_blocks": (2, 50, 37, 16),
    "narrow": (2, 5, 3, 2),
}


def tolerance(workload: Workload, values: Mapping[str, Value]) -> float:
    """What is expected of the parts that the factors are taken into, beside any order of sums."""
    expected = zip(parts_errors(workload), (values["pack.0"], values["pack.1"]), strict=True)
    return 1e-5 + sum(errors.get(str(form), 0.0) for errors, form in expected)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("masked", [True, False])
def test_random_schedules_agree_with_the_reference(shape: str, masked: bool) -> None:  # noqa: FBT001
    workload = attention(*SHAPES[shape], masked=masked)
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)
    rng = random.Random(shape)
    for number in range(6):
        threads = 1 + number % 2
        space = build_space(workload, native_target(), threads)
        listed = [space.default, *space.starts]
        assignment = listed[number] if number < len(listed) and number % 3 else space.sample(rng)
        got, values = (
            native_outputs(workload, space.schedule(assignment), operands, threads),
            space.values(assignment),
        )
        assert stored_error(workload, got, expected) < tolerance(workload, values), values


@pytest.mark.parametrize("places", [slow(130), slow(192), 37])
def test_results_that_lie_across_the_rows(places: int) -> None:
    """The lanes of the second product are columns of its own; blocks of rows are turned where they are stored."""
    workload = image_attention(places, 8, 40)
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)
    space, rng = build_space(workload, native_target(), 1), random.Random(places)
    for assignment in {space.default, *space.starts, *(space.sample(rng) for _ in range(8))}:
        got, values = (
            native_outputs(workload, space.schedule(assignment), operands, 1),
            space.values(assignment),
        )
        assert stored_error(workload, got, expected) < tolerance(workload, values), values
    narrow = build_space(workload, PRESETS["x86-64-v3"], 1)
    assert "register t5:" in print_nest(build_nest(workload, narrow.schedule(narrow.default)))


def with_rows_innermost(workload: Workload) -> Workload:
    """What is between the products lies the other way round in memory."""
    between = {o.name for o in workload.temporaries if o.shape[-1].constant != 1} - {
        workload.stages[-2].target,
    }

    def turned(places: tuple[Index, ...]) -> tuple[Index, ...]:
        return (*places[:-2], places[-1], places[-2])

    def rule(e: Expr) -> Expr | None:
        return Load(e.buffer, turned(e.indices)) if isinstance(e, Load) and e.buffer in between else None

    return replace(
        workload,
        temporaries=tuple(
            replace(o, shape=turned(o.shape)) if o.name in between else o for o in workload.temporaries
        ),
        stages=tuple(
            replace(
                s,
                body=rewrite(s.body, rule),
                target_indices=turned(s.target_indices) if s.target in between else s.target_indices,
            )
            for s in workload.stages
        ),
    )


def test_scores_whose_rows_lie_innermost() -> None:
    """Matrices store rows of columns: these scores they do not make."""
    workload = with_rows_innermost(attention(1, 17, 18, 5))
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)
    space, rng = build_space(workload, WITH_MATRICES, 1), random.Random(0)
    for assignment in {space.default, *space.starts, *(space.sample(rng) for _ in range(3))}:
        values = space.values(assignment)
        assert not str(values["pack.0"]).startswith("parts")
        got = interpreted_outputs(workload, space.schedule(assignment), operands)
        assert stored_error(workload, got, expected) < tolerance(workload, values), values


@pytest.mark.parametrize("wide", [2, 9])
def test_batches_that_lie_innermost(wide: int) -> None:
    """Channels of an image, which are last: products of its rows are computed at one place of them, not at all."""
    nodes = [
        helper.make_node("Conv", ["x", "kernel"], ["image"], pads=[1, 1, 1, 1]),
        helper.make_node("Transpose", ["image"], ["turned"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["image", "turned"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["shares"], axis=-1),
        helper.make_node("MatMul", ["shares", "image"], ["y"]),
    ]
    kernel = np.random.default_rng(0).standard_normal((8, 16, 3, 3)).astype(np.float32) / 12
    program = lower(load_graph(network(nodes, {"x": (2, 16, 65, wide)}, {"kernel": kernel})))
    workload = next(g.workload for g in program.subgraphs if Products().applies(g.workload))
    assert workload.operands[0].shape[-1].constant == 8
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)
    for target in (native_target(), PRESETS["aarch64-cortex-a72"]):
        space = build_space(workload, target, 1)
        assert space.values(space.default)["between"] == "cache"
        nest = build_nest(workload, space.schedule(space.default))
        assert local_bytes(nest) < 4 * 65 * 96 * 4
    space, rng = build_space(workload, native_target(), 1), random.Random(wide)
    for assignment in (space.default, *space.starts, *(space.sample(rng) for _ in range(4))):
        got, values = (
            native_outputs(workload, space.schedule(assignment), operands, 1),
            space.values(assignment),
        )
        assert stored_error(workload, got, expected) < tolerance(workload, values), values


def test_the_interpreter_agrees_on_wider_vectors() -> None:
    workload = attention(2, 13, 21, 5)
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)
    space = build_space(workload, PRESETS["x86-64-v4"], 2)
    for assignment in (space.default, space.starts[-1]):
        got = interpreted_outputs(workload, space.schedule(assignment), operands)
        assert stored_error(workload, got, expected) < 1e-5


def test_the_default_keeps_what_is_between_in_the_cache() -> None:
    workload = attention(2, 64, 48, 16)
    target = PRESETS["x86-64-v3"]
    space = build_space(workload, target, 2)
    values = space.values(space.default)
    assert (values["between"], values["pack.0"], values["pack.1"]) == ("cache", "yes", "yes")
    nest = build_nest(workload, space.schedule(space.default))
    # Only the copies of operands are memory that others see.
    assert {b.shape for b in nest.params if b.role == "scratch"} == {(2, 6, 16, 8), (2, 2, 48, 8)}
    assert 0 < local_bytes(nest) <= target.l2_bytes // 2
    phases = build_nest(workload, space.build({**values, "between": "memory"}))
    assert not local_bytes(phases)
    assert len(phases.phases) > 3


def test_columns_that_no_cache_holds_go_to_memory() -> None:
    workload = attention(1, 64, 40_000, 8)
    space = build_space(workload, PRESETS["x86-64-v3"], 1)
    values = space.values(space.default)
    assert space.is_legal(space.default)
    assert values["between"] == "memory"
    with pytest.raises(ScheduleError, match="do not fit the target"):
        space.build({**values, "between": "cache"})


def test_the_default_nest(golden: Callable[[str, str], None]) -> None:
    workload = attention(2, 16, 24, 8)
    space = build_space(workload, PRESETS["x86-64-v3"], 2)
    schedule = space.schedule(space.default)
    golden(print_nest(build_nest(workload, schedule)), "schedule/default_attention")
    again = schedule_from_json(json.loads(json.dumps(schedule_json(schedule))))
    assert print_nest(build_nest(workload, again)) == print_nest(build_nest(workload, schedule))


def test_the_rule_leaves_other_structures_alone() -> None:
    assert not any(Products().applies(workload) for workload in KINDS.values())
