"""Any legal schedule of any kind of anchor computes what the float64 reference says."""

from __future__ import annotations

import json
import random

import pytest

from compiler.evaluate import reference_outputs
from compiler.loop.printer import print_nest
from compiler.pipeline import build_nest
from compiler.schedule.schedule import schedule_from_json, schedule_json
from compiler.space.rules import build_space
from compiler.target import PRESETS, native_target
from tests.compiler.execute import relative_error, run_interpreted, run_native
from tests.compiler.workloads import KINDS, random_operands

SCHEDULES = 50


@pytest.mark.parametrize("kind", KINDS)
def test_random_schedules_agree_with_the_reference(kind: str) -> None:
    workload = KINDS[kind]
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    rng = random.Random(kind)
    tried = set()
    for number in range(SCHEDULES):
        threads = 1 + number % 3
        space = build_space(workload, native_target(), threads)
        assignment = space.sample(rng)
        tried.add((threads, assignment))
        got = run_native(workload, space.schedule(assignment), operands, threads)
        assert relative_error(got, expected) < 1e-5, space.values(assignment)
    assert len(tried) >= min(SCHEDULES // 2, space.size)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", ["x86-64-v3", "aarch64-neoverse-n1"])
def test_the_interpreter_agrees_on_other_vector_widths(kind: str, target: str) -> None:
    workload = KINDS[kind]
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    space = build_space(workload, PRESETS[target], 2)
    got = run_interpreted(workload, space.schedule(space.sample(random.Random(3))), operands)
    assert relative_error(got, expected) < 1e-5


@pytest.mark.parametrize("kind", KINDS)
def test_a_schedule_survives_json_and_rebuilds_the_identical_nest(kind: str) -> None:
    workload = KINDS[kind]
    space = build_space(workload, native_target(), 2)
    rng = random.Random(5)
    for _ in range(10):
        schedule = space.schedule(space.sample(rng))
        again = schedule_from_json(json.loads(json.dumps(schedule_json(schedule))))
        assert again == schedule
        assert again.digest == schedule.digest
        assert print_nest(build_nest(workload, again)) == print_nest(build_nest(workload, schedule))


@pytest.mark.parametrize("kind", KINDS)
def test_the_default_is_legal_and_deterministic(kind: str) -> None:
    for threads in (1, 2):
        space = build_space(KINDS[kind], native_target(), threads)
        assert space.is_legal(space.default)
        again = build_space(KINDS[kind], native_target(), threads)
        assert again.schedule(again.default) == space.schedule(space.default)
