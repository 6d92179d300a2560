"""A reduction that is stored apart from its map gives the same outputs."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.errors import ScheduleError
from compiler.evaluate import reference_outputs
from compiler.schedule.apart import apart
from tests.compiler.workloads import add_relu, lstm_cell, matmul, random_operands


def test_the_rewritten_cell_is_the_same() -> None:
    workload = lstm_cell(5, 12, 7)
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)
    got = reference_outputs(apart(workload, (0,)), operands)
    assert got.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(got[name], values, atol=1e-12)
    assert [stage.name for stage in apart(workload, (0,)).stages] == ["anchor", "sums.anchor", "epilogue"]


def test_the_sums_may_lie_along_another_dimension() -> None:
    workload = matmul(5, 7, 6)
    operands = random_operands(workload)
    turned = apart(workload, (0, 0))
    assert turned.stages[0].axes == tuple(reversed(workload.stages[0].axes))
    assert turned.temporaries[-1].sizes == tuple(reversed(workload.temporaries[0].sizes))
    for name, values in reference_outputs(workload, operands).items():
        np.testing.assert_allclose(reference_outputs(turned, operands)[name], values, atol=1e-12)
    with pytest.raises(ScheduleError, match="none is number 2"):
        apart(workload, (0, 2))


def test_a_map_alone_is_refused() -> None:
    for workload, parameters in ((add_relu(3, 4), (0,)), (matmul(3, 4, 5), (1,)), (matmul(3, 4, 5), ())):
        with pytest.raises(ScheduleError, match="apart needs the place of a stage that reduces"):
            apart(workload, parameters)
