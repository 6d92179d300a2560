from __future__ import annotations

import pytest

from tuner.measure import Measured, result_from_json, result_json


def test_times_at_the_pace_of_a_machine_that_is_not_disturbed() -> None:
    found = Measured((2.0, 4.0, 3.0), 1e-7, pacer_s=(1.0, 2.0, 1.0))
    assert found.at_pace(0.5) == Measured((1.0, 1.0, 1.5), 1e-7)
    assert Measured((2.0,), 1e-7).at_pace(0.5) == Measured((2.0,), 1e-7)


@pytest.mark.parametrize("pacer_s", [(), (1.0, 2.0)])
def test_results_come_back_from_their_json(pacer_s: tuple[float, ...]) -> None:
    found = Measured((2.0, 4.0), 1e-7, build_s=0.1, verify_s=0.2, measure_s=0.3, pacer_s=pacer_s)
    assert result_from_json(result_json(found)) == found


def test_rounds_of_a_pacer_belong_to_samples() -> None:
    data = {**result_json(Measured((2.0, 4.0), 1e-7)), "pacer_s": [1.0]}
    with pytest.raises(ValueError, match="1 rounds of a pacer do not belong to 2 samples"):
        result_from_json(data)
