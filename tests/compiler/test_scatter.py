"""What is a scatter, and what a reduction that does not say so: structure alone decides."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from compiler import evaluate
from compiler.evaluate import evaluate_stage
from compiler.grid import Grid
from compiler.index import Index, LookedUp
from compiler.scalar import Bound, Const, Guard, Load, Lookup, apply, expr_text
from compiler.scalar_ops import OPS, REDUCERS
from compiler.scatter import find_scatter
from compiler.symbol import axis
from compiler.workload.ir import Stage
from tests.compiler.workloads import KINDS, at, random_operands, scattered_sum

SUM = KINDS["scattered_rows"].stages[0]
PLACE = LookedUp("v0", 9)


def with_guard(**changes: object) -> Stage:
    assert isinstance(SUM.body, Lookup)
    assert isinstance(SUM.body.inside, Guard)
    return replace(SUM, body=replace(SUM.body, inside=replace(SUM.body.inside, **changes)))  # type: ignore[arg-type]


def test_the_axis_that_is_looked_up_is_what_was_found() -> None:
    found = find_scatter(SUM)
    assert found is not None
    assert found.places == {"s0": Index.of(PLACE)}
    assert expr_text(found.body) == "(x1[r0, s1] with v0 = x0[r0] in 0..9)"


def test_either_sign_and_a_first_place_that_is_not_0() -> None:
    turned = with_guard(bounds=(Bound(Index.of(PLACE) - Index.of("s0") + 3, 3, 4),))
    found = find_scatter(turned)
    assert found is not None
    assert found.places == {"s0": Index.of(PLACE)}


def test_further_tests_stay() -> None:
    bounds = (Bound(Index.of("s0") - Index.of(PLACE), 0, 1), Bound(Index.of("r0"), 2, 9))
    found = find_scatter(with_guard(bounds=bounds))
    assert found is not None
    assert isinstance(found.update, Guard)
    assert found.update.bounds == bounds[1:]


def test_several_axes() -> None:
    other = LookedUp("v1", 21)
    inside = Guard(
        (
            Bound(Index.of("s1") - Index.of(other), 0, 1),
            Bound(Index.of("s0") - Index.of(PLACE), 0, 1),
        ),
        Load("x1", at("r0", "s1")),
        Const(0.0),
    )
    body = Lookup(PLACE, Load("x0", at("r0")), Lookup(other, Load("x0", at("r0")), inside))
    found = find_scatter(replace(SUM, body=body))
    assert found is not None
    assert found.places == {"s0": Index.of(PLACE), "s1": Index.of(other)}
    assert isinstance(found.update, Load)
    assert found.update.indices == (Index.of("r0"), Index.of(other))


NONE = {
    "a map": replace(SUM, reducer=None, reduce_axes=(), axes=(*SUM.axes, *SUM.reduce_axes)),
    "other places count for something": with_guard(outside=Const(1.0)),
    "two places": with_guard(bounds=(Bound(Index.of("s0") - Index.of(PLACE), 0, 2),)),
    "a place beside it": with_guard(bounds=(Bound(Index.of("s0") - Index.of(PLACE), 1, 2),)),
    "every second place": with_guard(bounds=(Bound(Index.of("s0") - Index.of(PLACE) * 2, 0, 1),)),
    "an axis of another length": replace(SUM, axes=(axis("s0", 10), SUM.axes[1])),
    "what is looked up depends on the place": replace(
        SUM,
        body=Lookup(
            PLACE, Load("x0", at("s0")), SUM.body.inside if isinstance(SUM.body, Lookup) else SUM.body
        ),
    ),
    "no test": replace(
        SUM, body=Lookup(PLACE, Load("x0", at("r0")), Load("x1", (Index.of(PLACE), Index.of("s1"))))
    ),
    "a sum around it": replace(SUM, body=apply("add", SUM.body, Const(1.0))),
}


@pytest.mark.parametrize("name", NONE)
def test_what_is_none(name: str) -> None:
    assert find_scatter(NONE[name]) is None


@pytest.mark.parametrize("piece", [1 << 22, 64])
@pytest.mark.parametrize("reducer", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("apart", [False, True])
def test_its_value_is_that_of_the_reduction(
    apart: bool,  # noqa: FBT001
    reducer: str,
    piece: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In one piece or several: each place compared with all that is looked up, as the definition has it."""
    workload = scattered_sum(23, 9, 21, reducer, apart=apart)
    stage, operands = workload.stages[0], random_operands(workload)
    every = np.broadcast_to(
        Grid(stage.ranges, operands, np.dtype(np.float64)).value(stage.body), tuple(stage.ranges.values())
    )
    monkeypatch.setattr(evaluate, "_PIECE", piece)
    ufunc = OPS[REDUCERS[reducer].op].evaluate
    np.testing.assert_allclose(evaluate_stage(stage, operands), ufunc.reduce(every, axis=2), rtol=1e-12)  # type: ignore[attr-defined]


def test_only_iterations_that_count_are_operations() -> None:
    assert SUM.points == 9 * 21 * 23
    assert SUM.operations == 21 * 23
