"""Runs that go the way of an earlier one: nothing is looked for again, and nothing that matters is overlooked."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
from onnx import helper

from compiler.errors import InputError
from compiler.frontend.segment import Given, Segment
from luthier.compiled import CompiledSegment
from luthier.dynamic import DynamicModule
from luthier.paths import Crossing, Step
from tests.luthier.test_dynamic import branching, looping, module, reshaping

X = np.random.default_rng(0).standard_normal((2, 6), np.float32)


def looked_for(found: DynamicModule, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the module looks for from now on."""
    found_before, seen = found._compiled, []

    def compiled(*arguments: Any, **named: Any) -> Any:
        seen.append(arguments[0])
        return found_before(*arguments, **named)

    monkeypatch.setattr(found, "_compiled", compiled)
    return seen


def test_ways_that_were_gone_before_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    found = module(branching())
    ways = [np.array([-1, -2, -0.25, top], np.float32) for top in (3.0, 0.0)]
    for x in ways:
        found.run({"x": x})
    seen = looked_for(found, monkeypatch)
    for x in (*ways, *ways[::-1]):
        wanted = (-x if x[3] else np.abs(2 * x)) + 2 * x
        np.testing.assert_array_equal(found.run({"x": x})["y"], wanted)
    assert not seen
    found.close()


def test_other_content_of_a_value_that_must_be_known_is_another_way(monkeypatch: pytest.MonkeyPatch) -> None:
    found = module(reshaping())
    found.run({"x": X, "shape": np.array([3, 4])})
    seen = looked_for(found, monkeypatch)
    for shape in ([4, 3], [12, 1], [3, 4], [4, 3]):
        got = found.run({"x": X, "shape": np.array(shape)})["y"]
        np.testing.assert_array_equal(got, np.maximum(X, 0).reshape(shape))
    assert len(seen) == 2
    found.close()


def test_iterations_of_other_kinds_are_other_ways() -> None:
    nodes = [helper.make_node("Concat", ["s", "x"], ["t"], axis=0)]
    found = module(looping(nodes, {"s": ([None], "t")}, []))
    x = np.array([1, 2, 3], np.float32)
    for count, start in ((3, 2), (1, 3), (3, 2), (2, 1), (0, 2)):
        (got,) = found.run({"n": np.array(count), "x": x, "first_s": x[:start]}).values()
        np.testing.assert_array_equal(got, np.concatenate([x[:start], np.tile(x, count)]))
    found.close()


def test_what_is_no_input_of_the_model_is_refused_after_what_is() -> None:
    found = module(reshaping())
    shape = np.array([3, 4])
    found.run({"x": X, "shape": shape})
    for wrong in (X[:1], X.astype(np.float64), [X]):
        with pytest.raises(InputError, match="'x'"):
            found.run({"x": wrong, "shape": shape})
    found.close()


def test_segments_that_were_given_up_are_not_held() -> None:
    found = module(reshaping(), most=1)
    found.run({"x": X, "shape": np.array([3, 4])})
    (first,) = [step for step in gc.get_objects() if isinstance(step, Step)]
    held = weakref.ref(first.compiled)
    del first
    found.run({"x": X, "shape": np.array([4, 3])})
    gc.collect()
    assert held() is None
    got = found.run({"x": X, "shape": np.array([3, 4])})["y"]
    np.testing.assert_array_equal(got, np.maximum(X, 0).reshape(3, 4))
    found.close()


def a_step() -> Step:
    return Step(CompiledSegment(Segment(None, {}, {}, None, None), None).ready({}))


def test_a_crossing_asks_for_values_in_order() -> None:
    crossing, steps = Crossing(), [a_step() for _ in range(3)]
    a, b = Given("a"), Given("b")

    def values(a: int, b: int) -> dict[str, np.ndarray]:
        return {"a": np.array(a), "b": np.array(b)}

    crossing.add(("k",), [a, b], values(1, 1), steps[0])
    crossing.add(("k",), [a], values(2, 1), steps[1])
    crossing.add(("k",), [a, b], values(1, 2), steps[2])
    assert crossing.find(("k",), values(1, 1)) is steps[0]
    assert crossing.find(("k",), values(2, 5)) is steps[1]
    assert crossing.find(("k",), values(1, 2)) is steps[2]
    assert crossing.find(("k",), values(1, 3)) is None
    assert crossing.find(("k",), values(3, 1)) is None
    assert crossing.find((), values(1, 1)) is None


def test_another_question_takes_the_place_of_one() -> None:
    crossing, step = Crossing(), a_step()
    values = {"a": np.array(1), "b": np.array(1)}
    crossing.add((), [Given("a")], values, a_step())
    crossing.add((), [Given("b")], values, step)
    assert crossing.find((), values) is step
    assert crossing.find((), values | {"b": np.array(2)}) is None
