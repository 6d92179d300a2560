"""Bad input on the command line: one sentence that says what to do, exit 1 or 2, nothing written."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

Cli = Callable[..., "subprocess.CompletedProcess[str]"]


def _model(nodes: list[onnx.NodeProto], constants: dict[str, np.ndarray] | None = None) -> onnx.ModelProto:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "test",
        [value("x", TensorProto.FLOAT, [2, 8])],
        [value("y", TensorProto.FLOAT, [2, 8])],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _good() -> bytes:
    weights = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Relu", ["p"], ["y"])]
    return _model(nodes, {"w": weights}).SerializeToString()


def _external(location: str, length: int = 256) -> bytes:
    model = _model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"w": np.zeros((8, 8), np.float32)})
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, text in (("location", location), ("offset", "0"), ("length", str(length))):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, text
    return model.SerializeToString()


MODELS: dict[str, tuple[bytes | None, str]] = {
    "text": (b"this is not a model\n" * 20, ""),
    "empty": (b"", ""),
    "truncated": (_good()[:-40], ""),
    "invalid graph": (_model([helper.make_node("MatMul", ["x"], ["y"])]).SerializeToString(), ""),
    "cycle": (
        _model(
            [helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Add", ["a", "x"], ["b"]),
             helper.make_node("Relu", ["b"], ["y"])]
        ).SerializeToString(), "",
    ),
    "dangling edge": (_model([helper.make_node("Add", ["x", "nowhere"], ["y"])]).SerializeToString(), ""),
    "unsupported operator": (
        _model([helper.make_node("MaxRoiPool", ["x", "x"], ["y"], pooled_shape=[1, 1])]).SerializeToString(),
        "unsupported operator MaxRoiPool",
    ),
    "sizes that depend on values": (
        _model([helper.make_node("NonZero", ["x"], ["y"], name="finder")]).SerializeToString(), "'finder' (NonZero)",
    ),
    "external data outside": (_external("../secret.bin"), ""),
    "external data of absurd length": (_external("weights.bin", 1 << 60), ""),
}  # fmt: skip


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.onnx"
    path.write_bytes(_good())
    return path


def _refused(done: subprocess.CompletedProcess[str], status: int, word: str = "") -> str:
    assert done.returncode == status, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert len(last) > 20
    assert word.lower() in done.stderr.lower(), done.stderr
    return last


@pytest.mark.parametrize("name", MODELS)
def test_a_bad_model_is_refused(name: str, cli: Cli, tmp_path: Path) -> None:
    data, word = MODELS[name]
    (tmp_path / "bad.onnx").write_bytes(data or b"")
    done = cli("compile", "bad.onnx", "-o", "out.luthier", "--json")
    _refused(done, 1, word)
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out.luthier").exists()


def test_a_missing_model_and_a_folder_are_refused(cli: Cli, tmp_path: Path) -> None:
    _refused(cli("compile", "nothing.onnx", "-o", "out.luthier"), 1, "nothing.onnx")
    (tmp_path / "folder.onnx").mkdir()
    _refused(cli("compile", "folder.onnx", "-o", "out.luthier"), 1, "folder")
    assert not (tmp_path / "out.luthier").exists()


@pytest.mark.parametrize(
    ("options", "status", "word"),
    [
        (("-o", "missing/out.so"), 1, "missing"),
        (("-o", "out.bin"), 1, ".luthier or .so"),
        (("-o", "missing/out.luthier"), 1, "missing"),
        (("-o", "out.luthier", "--target", "pdp-11"), 1, "pdp-11"),
        (("-o", "out.luthier", "--threads", "-1"), 2, "threads"),
        (("-o", "out.luthier", "--threads", "0"), 2, "threads"),
        (("-o", "out.luthier", "--threads", "many"), 2, "threads"),
        (("-o", "out.luthier", "--shape", "x"), 2, "NAME=1,128"),
        (("-o", "out.luthier", "--shape", "x=0,8"), 2, "NAME=1,128"),
        (("-o", "out.luthier", "--shape", "z=2,8"), 1, "z"),
        (("-o", "out.luthier", "--error-budget", "-1"), 2, "error-budget"),
        (("-o", "out.luthier", "--error-budget", "nan"), 2, "error-budget"),
        (("-o", "out.luthier", "--database", "nonsense"), 1, "sqlite:///"),
        (("-o", "out.luthier", "--database", "mysql://u:secret@h/d"), 1, "postgresql://"),
        (("-o", "out.luthier", "--database", "sqlite:////no/such/folder/log.db"), 1, "folder"),
        (("-o", "out.luthier", "--require-tuned"), 1, "luthier tune"),
        (("-o", "out.luthier", "--nothing"), 2, "--nothing"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)  # fmt: skip
def test_a_bad_option_is_refused(
    options: tuple[str, ...], status: int, word: str, cli: Cli, good: Path, tmp_path: Path
) -> None:
    done = cli("compile", good, *options)
    _refused(done, status, word)
    assert "secret" not in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["good.onnx"]


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--trials", "-5"), "trials"),
        (("--trials", "1.5"), "trials"),
        (("--seconds", "-1"), "seconds"),
        (("--seconds", "nan"), "seconds"),
        (("--seconds", "soon"), "seconds"),
        (("--seed", "-1"), "seed"),
        (("--runner", "abacus"), "runner"),
    ],
    ids=" ".join,
)
def test_a_bad_budget_is_a_usage_error(options: tuple[str, ...], word: str, cli: Cli, good: Path) -> None:
    _refused(cli("tune", good, *options), 2, word)


def test_an_unreachable_database_is_named_without_its_password(cli: Cli, good: Path) -> None:
    done = cli("tune", good, "--trials", "1", "--database", "postgresql://u:secret@127.0.0.1:1/d")
    _refused(done, 1, "127.0.0.1:1")
    assert "secret" not in done.stderr


def test_an_unwritable_report_folder_is_refused_before_any_work(cli: Cli, good: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    _refused(cli("tune", good, "--trials", "1", "--report", "file/report"), 1, "file")


def test_a_process_ends_with_the_same_status(cli_process: Cli) -> None:
    _refused(cli_process("compile", "nothing.onnx", "-o", "out.luthier", "--json"), 1, "nothing.onnx")
    _refused(cli_process("compile", "nothing.onnx"), 2, "--output")


def test_a_command_is_needed(cli: Cli) -> None:
    assert cli().returncode == 2
    assert cli("polish").returncode == 2
    assert cli("--version").stdout.startswith("luthier ")
