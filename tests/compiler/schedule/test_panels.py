"""An activation that is copied in panels gives the same products."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from compiler.errors import ScheduleError
from compiler.evaluate import reference_outputs
from compiler.loop.ir import For, LoopKind
from compiler.pipeline import build_nest
from compiler.scalar import Expr, Load, rewrite
from compiler.schedule.panels import find_panels, panels
from compiler.schedule.schedule import Schedule
from compiler.space.rules import build_space
from compiler.target import PRESETS, native_target
from compiler.workload.ir import Workload
from tests.compiler.execute import interpreted_outputs, native_outputs, relative_error
from tests.compiler.workloads import convolution, matmul, operand, places_last, product, random_operands


@pytest.mark.parametrize("turned", ["", "x0", "x1", "x0 x1"])
@pytest.mark.parametrize(("m", "n", "k"), [(5, 24, 7), (3, 19, 8)])
def test_the_rewritten_product_is_the_same(turned: str, m: int, n: int, k: int) -> None:
    workload = product(2, m, n, k, turned=turned)
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    rewritten = panels(workload, (0, 2, 8))
    np.testing.assert_allclose(reference_outputs(rewritten, operands)["y0"], expected, atol=1e-12)
    assert rewritten.temporaries[0].sizes == (2, -(-n // 8), k, 8)


def test_slices_of_one_value_are_operands_of_their_own() -> None:
    workload = product(2, 5, 12, 7, turned="x1")
    both = (operand("x0", 2, 12, 7),)

    def one_buffer(e: Expr) -> Expr | None:
        return Load("x0", e.indices) if isinstance(e, Load) and e.buffer == "x1" else None

    anchor = workload.stages[0].rewritten(lambda body: rewrite(body, one_buffer))
    workload = replace(workload, operands=both, stages=(anchor, *workload.stages[1:]))
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    got = reference_outputs(panels(workload, (0, 2, 8)), operands)["y0"]
    np.testing.assert_allclose(got, expected, atol=1e-12)


def test_the_copy_is_a_phase_of_its_own() -> None:
    workload = product(2, 16, 24, 16, turned="x1")
    space = build_space(workload, PRESETS["x86-64-v3"], 2)
    nest = build_nest(workload, space.build({**space.values(space.default), "algorithm": "panels"}))
    assert [isinstance(p, For) and p.kind is LoopKind.PARALLEL for p in nest.phases] == [True, True]
    assert [b.shape for b in nest.params if b.role == "scratch"] == [(2, 3, 16, 8)]


V3, V4 = PRESETS["x86-64-v3"], PRESETS["x86-64-v4"]


@pytest.mark.parametrize("places", [72, 83])
@pytest.mark.parametrize("threads", [1, 2])
def test_panels_are_made_right_before_they_are_read(places: int, threads: int) -> None:
    workload = places_last(places, 27, 20)
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    space = build_space(workload, native_target(), threads)
    inside = {"algorithm": "panels", "order": "outside", "parallel": 1, "made": "inside"}
    for rows, vectors in ((4, 2), (3, 1), (6, 2)):
        values = {**space.values(space.default), **inside, "rows": rows, "vectors": vectors}
        schedule = space.build(values)
        nest = build_nest(workload, schedule)
        assert len(nest.phases) == 1
        assert not [b for b in nest.params if b.role == "scratch"], "a block of them is the thread's own"
        assert relative_error(native_outputs(workload, schedule, operands, threads)["y0"], expected) < 1e-5
        assert relative_error(interpreted_outputs(workload, schedule, operands)["y0"], expected) < 1e-5


@pytest.mark.parametrize("changed", [{"order": "inside"}, {"parallel": 2}])
def test_panels_of_a_block_are_made_once(changed: dict[str, object]) -> None:
    space = build_space(places_last(720, 27, 20), V3, 2)
    values = {**space.values(space.default), "algorithm": "panels", "made": "inside", "parallel": 1}
    assert space.legal(values | {"order": "outside"})
    assert not space.legal(values | {"order": "outside"} | changed)


@pytest.mark.parametrize(
    ("workload", "expected"),
    [
        pytest.param(places_last(1000, 64, 128), "panels", id="many rows, of lines far apart"),
        pytest.param(places_last(1000, 64, 24), "direct", id="few rows"),
        pytest.param(places_last(1024, 64, 24), "panels", id="places of a page"),
    ],
)
def test_what_is_copied_without_measuring(workload: Workload, expected: str) -> None:
    space = build_space(workload, V3, 1)
    values = space.values(space.default)
    assert values["algorithm"] == expected
    assert expected == "direct" or values["made"] == "inside"


def test_whole_lines_are_not_copied() -> None:
    space = build_space(places_last(1000, 64, 128), V4, 1)
    assert space.values(space.default)["algorithm"] == "direct"


@pytest.mark.parametrize("workload", [matmul(7, 20, 5), convolution(5, 4, 8, 3)])
def test_constants_are_packed_at_compile_time_instead(workload: Workload) -> None:
    anchor, constants = workload.stages[0], {o.name for o in workload.operands if o.constant}
    for axis in anchor.axes:
        found = find_panels(workload, anchor, axis.name)
        assert found is None or found.load.buffer not in constants


@pytest.mark.parametrize("parameters", [(), (0, 2), (0, 0, 8), (0, 7, 8), (0, 2, 0), (9, 2, 8), (1, 2, 8)])
def test_what_cannot_be_copied_is_refused(parameters: tuple[int, ...]) -> None:
    with pytest.raises(ScheduleError, match="panels"):
        panels(product(2, 3, 9, 4), parameters)


def test_the_algorithm_must_fit_the_workload() -> None:
    workload = product(2, 16, 24, 16, turned="x1")
    space = build_space(workload, PRESETS["x86-64-v3"], 1)
    schedule = space.schedule(space.default)
    with pytest.raises(ScheduleError, match="panels"):
        build_nest(matmul(16, 24, 16), Schedule(schedule.steps))
