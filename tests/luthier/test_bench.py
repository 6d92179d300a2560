from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiler.errors import InputError
from luthier.bench.engines import make_peer
from luthier.bench.reference import relative_error
from luthier.bench.turns import Sampler, take_turns


def test_contenders_take_turns_and_the_order_turns_too() -> None:
    order: list[str] = []

    def contender(name: str) -> Sampler:
        def sample(runs: int) -> float:
            order.append(name)
            return 1.0

        return sample

    times = take_turns({"a": contender("a"), "b": contender("b")}, seconds=0.0, settle_s=0.0)
    assert list(times) == ["a", "b"]
    assert all((len(t.samples_s), t.runs) == (5, 5) for t in times.values())
    changes = [name for name, before in zip(order, ["", *order], strict=False) if name != before]
    assert changes == ["a", "b", "a", "b", "a", "b", "a", "b"]


def test_the_error_is_relative_to_the_largest_value() -> None:
    reference = {"y": np.array([1.0, -4.0]), "empty": np.zeros((0,))}
    assert relative_error({"y": np.array([1.2, -4.0]), "empty": np.zeros((0,))}, reference) == pytest.approx(
        0.05
    )
    assert relative_error({"y": np.array([np.nan, -4.0]), "empty": np.zeros((0,))}, reference) == float("inf")


def test_an_unknown_engine_is_named_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="onnxruntime"):
        make_peer("abacus", Path("model.onnx"), {}, 1)


def test_an_engine_that_refuses_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "bad.onnx").write_bytes(b"nothing")
    with pytest.raises(InputError, match="refuses the model"):
        make_peer("onnxruntime", tmp_path / "bad.onnx", {}, 1)
