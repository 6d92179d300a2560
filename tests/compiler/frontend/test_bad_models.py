"""Whatever is wrong with a model: one sentence that says what to do, never a traceback from onnx or protobuf."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from compiler.errors import InputError, LuthierError, ModelError, NotStatic, UnsupportedOperator
from compiler.frontend import import_model, limits, read
from tests.compiler.frontend.models import model, relu, value

Change = Callable[[onnx.ModelProto], Any]


def sentence(error: LuthierError) -> str:
    text = str(error)
    assert "\n" not in text
    assert not text.endswith(".")
    assert "; " in text or ", so " in text, f"says not what to do: {text}"
    return text


def refused(source: Any, kind: type[LuthierError] = ModelError, shapes: Any = None) -> str:
    with pytest.raises(kind) as caught:
        import_model(source, shapes)
    assert isinstance(caught.value, kind)
    return sentence(caught.value)


def test_missing_path(tmp_path: Path) -> None:
    assert "there is no file" in refused(tmp_path / "none.onnx")
    assert "there is no file" in refused(str(tmp_path / "none.onnx"))
    (tmp_path / "file").write_bytes(b"x")
    assert "cannot be read" in refused(tmp_path / "file" / "none.onnx")
    assert "cannot be read" in refused("nul\0byte.onnx")


def test_folder(tmp_path: Path) -> None:
    assert "is a folder" in refused(tmp_path)


def test_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.onnx")
    assert "is not a regular file" in refused(tmp_path / "pipe.onnx")


def test_empty(tmp_path: Path) -> None:
    (tmp_path / "empty.onnx").touch()
    assert "is empty" in refused(tmp_path / "empty.onnx")
    assert "is empty" in refused(b"")


def test_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "large.onnx").open("wb") as file:
        file.truncate(limits.MAX_MODEL_BYTES + 1)
    assert "use external data" in refused(tmp_path / "large.onnx")
    monkeypatch.setattr(read, "MAX_MODEL_BYTES", 10)
    assert "more than 10 bytes" in refused(b"0123456789a")


@pytest.mark.parametrize("data", [b"this is no model", b"\x00" * 100, b"\x08\x0a", b"PK\x03\x04" + b"z" * 50])
def test_not_onnx(data: bytes) -> None:
    assert "is not an ONNX model" in refused(data)


def test_truncated(tmp_path: Path) -> None:
    data = model([relu()], constants={"c": np.zeros(100, np.float32)}).SerializeToString()
    (tmp_path / "cut.onnx").write_bytes(data[: len(data) // 2])
    assert "cut off" in refused(tmp_path / "cut.onnx")


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damaged_bytes_never_end_in_another_error(data: st.DataObject) -> None:
    """Cut or flipped bytes give a model or a LuthierError."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Reshape", ["c", "s"], ["y"]),
    ]
    constants = {"w": np.ones((2, 3, 3, 3), np.float32), "s": np.array([-1], np.int64)}
    whole = bytearray(model(nodes, {"x": [1, 3, 4, 4]}, constants).SerializeToString())
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(whole[: data.draw(st.integers(0, len(whole)))]) if data.draw(st.booleans()) else bytes(whole)
    with contextlib.suppress(LuthierError):
        import_model(cut)


@pytest.mark.parametrize("source", [None, 3, ["x.onnx"], bytearray(b"x")])
def test_other_types(source: Any) -> None:
    assert "a model is a path, bytes or an onnx.ModelProto" in refused(source, InputError)


def clear(name: str) -> Change:
    return lambda m: m.graph.ClearField(name)


def version(ir: int | None = None, opset: int | None = None) -> Change:
    def change(m: onnx.ModelProto) -> None:
        m.ir_version = m.ir_version if ir is None else ir
        m.opset_import[0].version = m.opset_import[0].version if opset is None else opset

    return change


def add_nodes(*nodes: onnx.NodeProto) -> Change:
    return lambda m: m.graph.node.extend(nodes)


def set_input(shape: Any, kind: int = TensorProto.FLOAT) -> Change:
    return lambda m: m.graph.input[0].CopyFrom(value("x", shape, kind))


def add_tensor(**fields: Any) -> Change:
    def change(m: onnx.ModelProto) -> None:
        m.graph.initializer.append(TensorProto(name="t", **fields))

    return change


def make(op: str, inputs: list[str], outputs: list[str], **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs, outputs, **attributes)


SEQUENCE = helper.make_tensor_sequence_value_info("x", TensorProto.FLOAT, [2, 3])

BROKEN: list[tuple[str, Change, str]] = [
    ("no outputs", clear("output"), "has no outputs"),
    (
        "output undefined",
        lambda m: setattr(m.graph.output[0], "name", "z"),
        "output 'z' of the model is defined by no",
    ),
    ("dangling edge", add_nodes(relu("gone", "z")), "reads 'gone', which nothing defines"),
    ("cycle", add_nodes(relu("b", "a"), relu("a", "b")), "depends on its own output through 'b'"),
    ("self loop", add_nodes(relu("a", "a")), "depends on its own output through 'a'"),
    (
        "behind a cycle",
        add_nodes(relu("a", "d"), relu("b", "a"), relu("a", "b")),
        "its own output through 'b'",
    ),
    ("defined twice", add_nodes(relu("x", "y")), "'y' is defined twice"),
    ("input defined twice", lambda m: m.graph.input.append(m.graph.input[0]), "'x' is defined twice"),
    ("node shadows input", add_nodes(relu("y", "x")), "'x' is defined twice"),
    ("nameless input", lambda m: setattr(m.graph.input[0], "name", ""), "has no name"),
    ("new IR", version(ir=99), "IR version 99 is not supported; export with one of 3 to"),
    ("old IR", version(ir=2), "IR version 2 is not supported"),
    ("new opset", version(opset=999), "opset 999 is not supported; export with one of 1 to"),
    ("old opset", version(opset=0), "opset 0 is not supported"),
    ("no opset", lambda m: m.ClearField("opset_import"), "imports no ONNX operator set"),
    ("unknown attribute", add_nodes(make("Relu", ["x"], ["z"], alpha=1.0)), "is not valid ONNX"),
    ("missing input", add_nodes(make("Conv", ["x"], ["z"])), "is not valid ONNX"),
    (
        "text as input",
        set_input([2, 3], TensorProto.STRING),
        "element type string, which Luthier does not support; export the model with one of float32",
    ),
    (
        "complex input",
        set_input([2, 3], TensorProto.COMPLEX64),
        "element type complex64, which Luthier does not support; export the model with one of float32",
    ),
    ("sequence input", lambda m: m.graph.input[0].CopyFrom(SEQUENCE), "is not a tensor"),
    ("empty dimension", set_input([2, 0]), "has shape [2, 0]; run it with luthier.compile"),
    ("absurd dimension", set_input([2, 2**40]), "more than 2147483647 elements"),
    ("absurd rank", set_input([1] * 40), "40 dimensions, the limit is 16"),
    ("text initialiser", add_tensor(data_type=8, dims=[1], string_data=[b"a"]), "'t' holds strings"),
    ("unknown type", add_tensor(data_type=77, dims=[2], raw_data=b"1234"), "77|not valid ONNX"),
    ("no data", add_tensor(data_type=1, dims=[2]), "has no data; give a model with its weights"),
    ("short data", add_tensor(data_type=1, dims=[600], raw_data=b"1" * 2000), "does not fit its shape"),
    ("negative shape", add_tensor(data_type=1, dims=[-2], raw_data=b"1" * 2000), "impossible shape"),
    ("absurd shape", add_tensor(data_type=1, dims=[2**40, 2**30], raw_data=b"1" * 2000), "impossible shape"),
    ("sparse", lambda m: m.graph.sparse_initializer.add(), "sparse initialisers"),
    (
        "wrong output shape",
        lambda m: m.graph.output[0].CopyFrom(value("y", [2, 4])),
        "declared with shape [2, 4] and computes to [2, 3]",
    ),
    ("output is input", lambda m: m.graph.output.append(value("x", [2, 3])), "one of its inputs"),
    ("types do not broadcast", add_nodes(make("Concat", ["x", "y"], ["z"], axis=4)), "has axis 4"),
]


@pytest.mark.parametrize(("change", "text"), [b[1:] for b in BROKEN], ids=[b[0] for b in BROKEN])
def test_broken_models(change: Change, text: str, tmp_path: Path) -> None:
    proto = model([relu()])
    change(proto)
    message = refused(proto)
    assert any(part in message for part in text.split("|"))
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    assert refused(tmp_path / "m.onnx") == message


UNSUPPORTED: list[tuple[str, onnx.NodeProto, str]] = [
    (
        "unknown lowering",
        make("MaxRoiPool", ["x", "x"], ["y"], pooled_shape=[1, 1]),
        "unsupported operator MaxRoiPool of opset 20 at node 'MaxRoiPool_0'",
    ),
    (
        "other domain",
        make("FusedConv", ["x"], ["y"], domain="com.example"),
        "com.example.FusedConv of opset 3",
    ),
    ("element type", make("Exp", ["i"], ["y"]), "exp takes floats to a float, not i64"),
    ("mixed types", make("Add", ["x", "i"], ["y"]), "element type float32, int64"),
    ("run-time cast", make("Cast", ["x"], ["y"], to=14), "from float32 to complex64"),
]


@pytest.mark.parametrize(("node", "text"), [u[1:] for u in UNSUPPORTED], ids=[u[0] for u in UNSUPPORTED])
def test_valid_models_without_a_lowering(node: onnx.NodeProto, text: str) -> None:
    constants = {"p": np.zeros(4, np.int64), "i": np.ones(3, np.int64), "c": np.ones(3, np.float32)}
    nodes = [node]
    inputs: dict[str, Any] = {"x": [2, 3]}
    if "q" in node.input:
        nodes.insert(0, make("Relu", ["x"], ["q"]))
    proto = model(nodes, inputs, constants)
    proto.opset_import.append(helper.make_opsetid("com.example", 3))
    assert text in refused(proto, UnsupportedOperator)


MISUSED: list[tuple[str, onnx.NodeProto, str]] = [
    ("shapes", make("MatMul", ["x", "x"], ["y"]), "which do not fit"),
    ("broadcast", make("Add", ["x", "w"], ["y"]), "do not broadcast"),
    ("channels", make("Conv", ["image", "w"], ["y"]), "groups for"),
    ("window", make("MaxPool", ["image"], ["y"], kernel_shape=[9, 9]), "window of 9 over 4 elements"),
    ("kernel", make("MaxPool", ["image"], ["y"], kernel_shape=[0, 1]), "has kernel_shape [0, 1]"),
    ("strides", make("MaxPool", ["image"], ["y"], kernel_shape=[1, 1], strides=[0, 1]), "has strides [0, 1]"),
    ("pads", make("MaxPool", ["image"], ["y"], kernel_shape=[1, 1], pads=[1]), "has 1 pads instead of 4"),
    (
        "absurd pads",
        make("MaxPool", ["image"], ["y"], kernel_shape=[1, 1], pads=[2**30] * 4),
        "more than 2147483647 elements",
    ),
    ("perm", make("Transpose", ["x"], ["y"], perm=[0, 0]), "has perm [0, 0]"),
    ("reshape", make("Reshape", ["x", "seven"], ["y"]), "reshapes [2, 3] to [7]"),
    ("squeeze", make("Squeeze", ["x", "zero"], ["y"]), "not all 1"),
    ("axis twice", make("ReduceSum", ["x", "zeros"], ["y"]), "names an axis twice"),
    ("huge expand", make("Expand", ["x", "huge"], ["y"]), "more than 2147483647 elements"),
    ("attribute type", make("Flatten", ["x"], ["y"], axis=1.5), "axis"),
    ("split", make("Split", ["x", "seven"], ["y"]), "splits 2 elements into [7]"),
]


@pytest.mark.parametrize(("node", "text"), [m[1:] for m in MISUSED], ids=[m[0] for m in MISUSED])
def test_misused_operators_name_the_node(node: onnx.NodeProto, text: str) -> None:
    constants = {
        "seven": np.array([7], np.int64),
        "zero": np.array([0], np.int64),
        "zeros": np.array([0, -2], np.int64),
        "huge": np.array([2**20, 2**20, 1, 1], np.int64),
        "w": np.ones((5, 7, 3, 3), np.float32),
    }
    node.name = "culprit"
    message = refused(model([node], {"x": [2, 3], "image": [1, 2, 4, 4]}, constants))
    assert text in message
    assert "culprit" in message


def test_too_many_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compiler.frontend.check.MAX_NODES", 1)
    assert "has 2 nodes, the limit is 1" in refused(model([relu(), relu("y", "z")]))


def test_the_callers_model_is_not_changed() -> None:
    proto = model([relu()], constants={"c": np.zeros(2000, np.float32)})
    before = proto.SerializeToString(deterministic=True)
    import_model(proto)
    assert proto.SerializeToString(deterministic=True) == before


def test_a_form_that_depends_on_values_names_the_node_of_the_model() -> None:
    for nodes, text in (
        (
            [make("Cast", ["x"], ["q"], to=7), make("Reshape", ["x", "q"], ["y"])],
            "node 'Reshape_1' (Reshape) becomes depends on the value of 'q', which is computed",
        ),
        ([make("NonZero", ["x"], ["y"])], "node 'NonZero_0' (NonZero) becomes depends on values"),
    ):
        message = refused(model(nodes, {"x": [6]}), NotStatic)
        assert text in message
        assert "neither saved nor tuned" in message
