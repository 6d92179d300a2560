"""What belongs to sizes is prepared once, for the sizes that were run last."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from onnx import TensorProto, helper

import luthier
from compiler.errors import InputError
from compiler.runtime.sized import AllSizes


def doubled() -> luthier.Module:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "g", [x], [y])
    module = luthier.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), threads=1)
    assert isinstance(module, luthier.Module)
    return module


def test_sizes_are_prepared_once_and_the_oldest_are_given_up() -> None:
    module = doubled()
    known = AllSizes(module.image)
    first = known.of({"x": np.zeros((1, 3), np.float32)})
    assert known.of({}, {"n": 1}) is first
    assert first.fresh_outputs()["y"].shape == (1, 3)
    for n in range(2, 66):
        known.of({}, {"n": n})
    assert known.of({}, {"n": 65}) is known.of({}, {"n": 65})
    assert known.of({}, {"n": 1}) is not first
    module.close()


def test_inputs_that_do_not_say_the_sizes() -> None:
    module = doubled()
    known = AllSizes(module.image)
    with pytest.raises(InputError, match="input 'x' is missing"):
        known.of({})
    with pytest.raises(InputError, match=r"of shape \[3\]; give float32 of shape \[n, 3\]"):
        known.of({"x": np.zeros(3, np.float32)})
    with pytest.raises(InputError, match="no input says how large n is"):
        AllSizes(replace(module.image, inputs=())).of({})
    module.close()
