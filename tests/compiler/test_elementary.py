"""What elementary functions mean."""

import math

import numpy as np
import pytest

from compiler.scalar_ops import OPS


def test_erf_is_that_of_the_c_library() -> None:
    points = [np.linspace(-6.5, 6.5, 40_001), np.logspace(-300, 0, 2_000), [0.0, math.inf, -math.inf]]
    x = np.concatenate(points)
    exact = np.array([math.erf(v) for v in x])
    np.testing.assert_allclose(OPS["erf"].evaluate(x), exact, rtol=1e-15, atol=0)
    assert math.isnan(OPS["erf"].evaluate(math.nan))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("op", ["exp", "log", "erf", "tanh", "sigmoid"])
def test_the_result_has_the_type_of_the_argument_and_warns_of_nothing(
    op: str, dtype: type[np.floating]
) -> None:
    for value in (dtype(0), dtype(-1e4), np.zeros((2, 3), dtype), np.full(3, np.inf, dtype)):
        result = OPS[op].evaluate(value)
        assert result.dtype == dtype
        assert np.shape(result) == np.shape(value)


def test_a_comparison_with_nan_never_holds() -> None:
    x = np.array([1.0, 2.0, math.nan])
    assert OPS["less"].evaluate(1.5, x).tolist() == [False, True, False]
    assert OPS["equal"].evaluate(x, x).tolist() == [True, True, False]
