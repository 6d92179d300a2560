"""What nothing was measured for keeps to the error budget that the caller asked for."""

from __future__ import annotations

import pytest

from compiler.schedule.source import NoSource
from compiler.schedule.steps import Algorithm
from compiler.target import PRESETS
from luthier.lookups import Lookups
from service.records.source import task_error_budget
from tests.compiler.workloads import padded_convolution


@pytest.mark.parametrize(("error_budget", "algorithms"), [(None, ["padded", "winograd"]), (1e-6, [])])
def test_the_default_keeps_to_the_budget(error_budget: float | None, algorithms: list[str]) -> None:
    source = Lookups(NoSource(task_error_budget(error_budget)), predict=False)
    (found,) = source.lookup([padded_convolution(28, 64, 64, 3)], PRESETS["x86-64-v3"], 1)
    assert found is not None
    assert [s.name for s in found.schedule.steps if isinstance(s, Algorithm)] == algorithms


def test_a_compiled_model_is_for_one_budget() -> None:
    loose, tight = (Lookups(NoSource(budget), predict=False) for budget in (2e-5, 2e-7))
    assert loose.chooser != tight.chooser
