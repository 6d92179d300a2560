"""Any legal schedule of any kind of anchor computes what the float64 reference says."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pytest

from compiler.errors import CompileError
from compiler.evaluate import reference_outputs
from compiler.loop.printer import print_nest
from compiler.pipeline import build_nest
from compiler.schedule.schedule import Schedule, schedule_from_json, schedule_json
from compiler.schedule.steps import Algorithm
from compiler.space.rules import build_space
from compiler.space.space import Assignment, SearchSpace
from compiler.target import PRESETS, native_target
from compiler.workload.ir import Workload
from tests.compiler.execute import interpreted_outputs, native_outputs, stored_error
from tests.compiler.model_workloads import MODEL_KINDS, model_workload
from tests.compiler.workloads import KINDS, random_operands
from tests.slow import every

ALL_KINDS = (*KINDS, *MODEL_KINDS)
FEW, MANY = 6, 120
TEAMS = (1, 2, 3)


def workload_of(kind: str) -> Workload:
    return KINDS[kind] if kind in KINDS else model_workload(kind)


def distinct(space: SearchSpace, rng: random.Random, count: int) -> set[Assignment]:
    """So many legal assignments, or all where the space has no more."""
    if space.size <= 4 * count:
        legal = list(space.enumerate(space.size))
        return set(rng.sample(legal, min(count, len(legal))))
    found = {space.default, *space.starts}
    for _ in range(40 * count):
        if len(found) >= count:
            break
        found.add(space.sample(rng))
    return found


def schedules(kind: str, count: int) -> Iterator[tuple[int, SearchSpace, Assignment]]:
    """About so many in all, shared out over the teams."""
    rng = random.Random(kind)
    for threads in TEAMS:
        space = build_space(workload_of(kind), native_target(), threads)
        for assignment in sorted(distinct(space, rng, -(-count // len(TEAMS)))):
            yield threads, space, assignment


def tolerance(plan: Schedule) -> float:
    """Products of parts are less exact: the hyperbolic tangent of sums of 20 enlarges their error 20 times."""
    return 3e-4 if any(isinstance(s, Algorithm) and s.name.startswith("parts") for s in plan.steps) else 1e-5


def check(kind: str, count: int) -> int:
    """Run all but those that unroll to more than the code generator takes; how many there were."""
    workload = workload_of(kind)
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)
    tried = 0
    for threads, space, assignment in schedules(kind, count):
        try:
            plan = space.schedule(assignment)
            got = native_outputs(workload, plan, operands, threads)
        except CompileError as error:
            if "unroll less" not in str(error):
                raise
            continue
        assert stored_error(workload, got, expected) < tolerance(plan), (threads, space.values(assignment))
        tried += 1
    return tried


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_random_schedules_agree_with_the_reference(kind: str) -> None:
    assert check(kind, FEW) > 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ALL_KINDS)
def test_a_hundred_distinct_schedules_agree_with_the_reference(kind: str) -> None:
    tried = check(kind, MANY)
    sizes = [build_space(workload_of(kind), native_target(), t).size for t in TEAMS]
    assert tried >= min(100, 0.8 * sum(sizes))


@pytest.mark.parametrize("kind", ALL_KINDS)
@pytest.mark.parametrize("target", [pytest.param("x86-64-v3", marks=pytest.mark.slow), "aarch64-neoverse-n1"])
def test_the_interpreter_agrees_on_other_vector_widths(kind: str, target: str) -> None:
    workload = workload_of(kind)
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)
    space = build_space(workload, PRESETS[target], 2)
    got = interpreted_outputs(workload, space.schedule(space.sample(random.Random(3))), operands)
    assert stored_error(workload, got, expected) < 1e-5


@pytest.mark.parametrize("kind", every(3, ALL_KINDS))
def test_a_schedule_survives_json_and_rebuilds_the_identical_nest(kind: str) -> None:
    workload = workload_of(kind)
    space = build_space(workload, native_target(), 2)
    rng = random.Random(5)
    for _ in range(4):
        schedule = space.schedule(space.sample(rng))
        again = schedule_from_json(json.loads(json.dumps(schedule_json(schedule))))
        assert again == schedule
        assert again.digest == schedule.digest
        assert print_nest(build_nest(workload, again)) == print_nest(build_nest(workload, schedule))


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_the_default_is_legal_and_deterministic(kind: str) -> None:
    for threads in (1, 2):
        space = build_space(workload_of(kind), native_target(), threads)
        assert space.is_legal(space.default)
        again = build_space(workload_of(kind), native_target(), threads)
        assert again.schedule(again.default) == space.schedule(space.default)
