"""Weights apart from the message: what is left and what was taken out are together the model that protobuf reads."""

import io
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from compiler.errors import ModelError
from compiler.frontend import import_model
from compiler.frontend.read import read_source
from compiler.frontend.segment import checked_model
from compiler.frontend.wire import MalformedError, without_large_data
from tests.compiler.frontend.models import model

LARGE = np.arange(4096, dtype=np.float32)
SMALL = np.arange(3, dtype=np.float32)


def field(number: int, body: bytes) -> bytes:
    """A length-delimited field of the wire format."""
    length, out = len(body), bytearray([number << 3 | 2])
    while length >= 128:
        out.append(length & 127 | 128)
        length >>= 7
    return bytes((*out, length)) + body


def put_together(data: bytes) -> onnx.ModelProto:
    """What protobuf reads of the light model, with the data that was taken out put back."""
    light = without_large_data(io.BytesIO(data), len(data))
    found = onnx.ModelProto.FromString(light.model)
    for place, span in light.large.items():
        assert not found.graph.initializer[place].HasField("raw_data")
        found.graph.initializer[place].raw_data = data[span.start : span.stop]
    return found


def example() -> onnx.ModelProto:
    return model(
        [helper.make_node("Add", ["x", "large"], ["y"])], {"x": [4096]}, {"large": LARGE, "small": SMALL}
    )


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 3000), st.sampled_from(["f4", "i8", "u1", "f2"]), st.booleans())),
    st.text(max_size=5),
)
def test_light_model_and_data_are_the_model(tensors: list[tuple[int, str, bool]], doc: str) -> None:
    proto = onnx.ModelProto(ir_version=9, doc_string=doc)
    proto.graph.name = "g"
    for place, (count, dtype, raw) in enumerate(tensors):
        tensor = numpy_helper.from_array(np.ones(count, dtype), f"t{place}")
        if not raw and dtype == "f4":
            tensor.ClearField("raw_data")
            tensor.float_data.extend([0.5] * count)
        proto.graph.initializer.append(tensor)
        proto.graph.node.append(helper.make_node("Relu", [f"t{place}"], [f"o{place}"]))
    data = proto.SerializeToString()
    assert put_together(data) == onnx.ModelProto.FromString(data)


def test_large_data_is_left_out_and_small_stays() -> None:
    data = example().SerializeToString()
    light = without_large_data(io.BytesIO(data), len(data))
    assert len(light.model) < LARGE.nbytes / 8
    [span] = light.large.values()
    assert data[span.start : span.stop] == LARGE.tobytes()


def test_fields_that_occur_twice_count_as_in_protobuf() -> None:
    """Graphs are merged, so places go on; of a tensor's data the last one stands."""
    tensor = numpy_helper.from_array(LARGE, "a").SerializeToString()
    twice = field(5, tensor + field(9, (LARGE + 1).tobytes()))
    short = field(5, tensor + field(9, SMALL.tobytes()))
    data = b"\x08\x09" + field(7, twice) + field(7, short)
    assert put_together(data) == onnx.ModelProto.FromString(data)


def test_packed_types_stay_in_the_message() -> None:
    """Two elements of four bits share a byte: the data is no array as it lies."""
    proto = onnx.ModelProto(ir_version=10)
    proto.graph.initializer.add(name="w", data_type=TensorProto.INT4, dims=[20000], raw_data=bytes(10000))
    data = proto.SerializeToString()
    assert without_large_data(io.BytesIO(data), len(data)).model == data


@pytest.mark.parametrize(
    "data",
    [
        b"\x3a",  # a length is missing
        b"\x3a\x05ab",  # cut off
        b"\x3a\x04\x2a\x05abc",  # a field that is longer than its message
        b"\x80",  # an open number
        b"\x80" * 11,  # one that is too long
        b"\x00\x00",  # field 0
        b"\x0b\x0c",  # a group
        b"\x0f",  # a kind that there is not
    ],
)
def test_malformed(data: bytes) -> None:
    with pytest.raises(MalformedError):
        without_large_data(io.BytesIO(data), len(data))


def test_path_bytes_and_message_give_the_same_constants(tmp_path: Path) -> None:
    proto = example()
    path = tmp_path / "m.onnx"
    onnx.save(proto, path)
    for source in (path, path.read_bytes(), proto):
        graph = import_model(source)
        np.testing.assert_array_equal(graph.constants["large"], LARGE)
        assert not graph.constants["large"].flags.writeable


def test_a_model_that_is_compiled_as_it_runs_has_its_weights() -> None:
    checked = checked_model(example().SerializeToString())
    np.testing.assert_array_equal(checked.constant("large"), LARGE)


def test_an_attribute_of_an_initialisers_name_keeps_its_own_data() -> None:
    value = numpy_helper.from_array(SMALL, "large")
    nodes = [
        helper.make_node("Constant", [], ["c"], value=value),
        helper.make_node("Add", ["x", "large"], ["s"]),
        helper.make_node("Add", ["c", "c"], ["y"]),
    ]
    proto = model(nodes, {"x": [4096]}, {"large": LARGE}, outputs=("s", "y"))
    graph = import_model(proto.SerializeToString())
    np.testing.assert_array_equal(graph.constants["large"], LARGE)
    assert any(np.array_equal(array, SMALL * 2) for array in graph.constants.values())


def test_a_models_own_bytes_are_used_where_they_are() -> None:
    data = example().SerializeToString()
    whole = np.frombuffer(data, np.uint8)
    assert np.shares_memory(read_source(data).data["large"], whole)


def test_data_of_another_size_than_the_shape() -> None:
    proto = example()
    proto.graph.initializer[0].dims[0] -= 1
    with pytest.raises(ModelError, match="does not fit its shape"):
        import_model(proto.SerializeToString())
