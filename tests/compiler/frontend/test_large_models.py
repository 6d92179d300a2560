"""Large models: many nodes, and weights that no protobuf message can hold."""

import sys
from pathlib import Path
from types import FrameType

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import luthier
from compiler.frontend import import_model
from tests.compiler.frontend.models import model


def chain(count: int) -> onnx.ModelProto:
    """A residual network of single operators; every value has a name of its own."""
    kinds = ("Relu", "Add", "Mul", "Transpose", "Sigmoid")
    nodes, last = [], "x"
    for place in range(count):
        kind = kinds[place % len(kinds)]
        operands = [last, "x" if kind == "Add" else "c"][: 2 if kind in ("Add", "Mul") else 1]
        attributes = {"perm": [1, 0]} if kind == "Transpose" else {}
        name = "y" if place == count - 1 else f"v{place}"
        nodes.append(helper.make_node(kind, operands, [name], **attributes))
        last = name
    return model(nodes, {"x": [4, 4]}, {"c": np.full((4, 4), 0.5, np.float32)})


def calls(proto: onnx.ModelProto) -> int:
    """Python functions that are called to import a model."""
    count = 0

    def note(_: FrameType, event: str, __: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        import_model(proto)
    finally:
        sys.setprofile(None)
    return count


def test_ten_thousand_nodes() -> None:
    assert len(import_model(chain(10_000)).nodes) >= 9_000


def test_ten_times_the_nodes_take_ten_times_the_work() -> None:
    calls(chain(30))  # imports what is loaded when it is needed
    assert calls(chain(3000)) < 11 * calls(chain(300))


@pytest.mark.slow
def test_weights_of_more_than_two_gibibytes(tmp_path: Path) -> None:
    """Only a model whose weights lie beside it can be so large; the last of them must be read from beyond 2^31."""
    rows, columns, parts = 8192, 16384, 5
    proto = model(
        [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("MatMul", ["h", "v"], ["y"])],
        {"x": [1, rows]},
    )
    data = np.memmap(tmp_path / "w.bin", np.float32, "w+", shape=(parts, rows, columns))
    last = data[-1].reshape(columns, rows)
    for place in range(columns):
        data[0, place % rows, place] = 1.0
        last[place, place % rows] = 3.0
    data.flush()
    size = rows * columns * 4
    assert parts * size > 2 << 30
    for name, dims, offset in (("w", (rows, columns), 0), ("v", (columns, rows), (parts - 1) * size)):
        tensor = proto.graph.initializer.add(name=name, data_type=TensorProto.FLOAT, dims=dims)
        tensor.data_location = TensorProto.EXTERNAL
        for key, entry in (("location", "w.bin"), ("offset", str(offset)), ("length", str(size))):
            tensor.external_data.add(key=key, value=entry)
    path = tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    x = np.arange(rows, dtype=np.float32)[None]
    y = luthier.compile(path, threads=1).run({"x": x})["y"]
    # Two columns of w hold each element of x, and v adds three times both.
    np.testing.assert_array_equal(y, 6 * x)
