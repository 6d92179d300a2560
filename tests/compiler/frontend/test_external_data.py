"""Weights beside the model: from the model's own folder and from nowhere else."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from compiler.errors import ModelError
from compiler.frontend import import_model
from tests.compiler.frontend.models import model

DATA = np.arange(6, dtype=np.float32)


def external(**entries: str) -> onnx.ModelProto:
    proto = model([helper.make_node("Add", ["x", "w"], ["y"])])
    tensor = proto.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[2, 3])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    return proto


def written(folder: Path, proto: onnx.ModelProto) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "m.onnx").write_bytes(proto.SerializeToString())
    (folder / "w.bin").write_bytes(b"1234" + DATA.tobytes() + b"5678")
    return folder / "m.onnx"


def refused(path: Path | bytes | onnx.ModelProto) -> str:
    with pytest.raises(ModelError) as caught:
        import_model(path)
    assert "\n" not in str(caught.value)
    assert "; " in str(caught.value)
    return str(caught.value)


def test_data_in_the_models_folder(tmp_path: Path) -> None:
    graph = import_model(written(tmp_path, external(location="w.bin", offset="4", length="24")))
    np.testing.assert_array_equal(graph.constants["w"], DATA.reshape(2, 3))
    assert not graph.constants["w"].flags.writeable


def test_length_may_be_left_out(tmp_path: Path) -> None:
    graph = import_model(written(tmp_path, external(location="w.bin", offset="4")))
    np.testing.assert_array_equal(graph.constants["w"], DATA.reshape(2, 3))


def test_a_relative_path_to_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, external(location="w.bin", offset="4"))
    monkeypatch.chdir(tmp_path)
    assert "w" in import_model("m.onnx").constants


@pytest.mark.parametrize(
    "location",
    ["", ".", "..", "../w.bin", "/etc/passwd", "sub/w.bin", "sub\\w.bin", "C:w.bin", "w.bin\0.txt"],
)
def test_other_places_are_refused(tmp_path: Path, location: str) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(32))
    path = written(tmp_path / "inner", external(location=location))
    (tmp_path / "inner" / "sub").mkdir()
    (tmp_path / "inner" / "sub" / "w.bin").write_bytes(bytes(32))
    assert "not a file in the folder of the model" in refused(path)


def test_links_out_of_the_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(bytes(32))
    path = written(tmp_path / "inner", external(location="link"))
    (tmp_path / "inner" / "link").symlink_to(tmp_path / "secret")
    assert "not a file in the folder of the model" in refused(path)


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        ({"offset": "12"}, "needs bytes 12 to 36 of 'w.bin', which has 32"),
        ({"offset": str(2**62)}, "which has 32"),
        ({"offset": "-4"}, "which is no size in bytes"),
        ({"offset": "9" * 30}, "which is no size in bytes"),
        ({"length": "many"}, "which is no size in bytes"),
        ({"length": str(2**60)}, "its shape needs 24"),
        ({"length": "8"}, "has 8 bytes of external data, its shape needs 24"),
    ],
)
def test_absurd_spans_are_refused(tmp_path: Path, entries: dict[str, str], text: str) -> None:
    assert text in refused(written(tmp_path, external(location="w.bin", **entries)))


def test_missing_file_and_folder(tmp_path: Path) -> None:
    path = written(tmp_path, external(location="none.bin"))
    assert "cannot be read" in refused(path)
    (tmp_path / "none.bin").mkdir()
    assert "is not a regular file" in refused(path)


def test_a_model_in_memory_has_no_folder() -> None:
    proto = external(location="w.bin")
    assert "give a path instead" in refused(proto)
    assert "give a path instead" in refused(proto.SerializeToString())


def test_absurd_shapes_allocate_nothing(tmp_path: Path) -> None:
    proto = external(location="w.bin")
    proto.graph.initializer[0].dims[:] = [2**20, 2**20]
    assert "impossible shape" in refused(written(tmp_path, proto))


def test_all_constants_together_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compiler.frontend.tensors.MAX_CONSTANT_BYTES", 23)
    assert "more than 23 bytes" in refused(written(tmp_path, external(location="w.bin")))
