from __future__ import annotations

import json

import pytest

from tests.faults import planted
from tuner.measure import MeasureOptions
from workers import wire


def test_a_task_survives_the_wire() -> None:
    task = planted.task(threads=2)
    again = wire.task_from_json(json.loads(json.dumps(wire.task_json(task))))
    assert again.key == task.key
    assert (again.name, again.weight, again.error_budget) == (task.name, task.weight, task.error_budget)


def test_options_survive_the_wire() -> None:
    options = MeasureOptions(samples=9, seed=4, memory_bytes=1 << 20)
    assert wire.options_from_json(json.loads(json.dumps(wire.options_json(options)))) == options


def test_unknown_options_are_refused() -> None:
    with pytest.raises(TypeError):
        wire.options_from_json({"repeats": 3})
