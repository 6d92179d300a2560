"""The five networks, whole: import, passes and evaluation against ONNX Runtime."""

import hashlib
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

from compiler.errors import ModelError
from compiler.frontend import import_model
from compiler.graph.evaluate import evaluate_graph
from compiler.graph.ir import ComputeKind
from compiler.graph.pipeline import optimise
from compiler.graph.printer import graph_text
from examples.networks import NAMES, fill, filled, stripped

CONTRACTIONS = {"mlp": 3, "mobilenetv2": 53, "resnet18": 21, "resnet50": 54, "vgg16conv_126x224": 13}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("networks")


@pytest.mark.parametrize("name", ["mlp", "mobilenetv2", "resnet18"])
def test_agrees_with_onnxruntime(name: str, folder: Path) -> None:
    path = filled(name, folder)
    graph = optimise(import_model(path))
    random = np.random.default_rng(0)
    inputs = {n: random.standard_normal(t.sizes).astype(np.float32) for n, t in graph.inputs.items()}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, inputs)
    for dtype in (np.float64, np.float32):
        actual = evaluate_graph(graph, inputs, dtype)[graph.outputs[0]]
        assert np.abs(actual - expected).max() <= 1e-5 * np.abs(actual).max()


@pytest.mark.parametrize("name", NAMES)
def test_structure(name: str, folder: Path) -> None:
    path = filled(name, folder)
    graph = optimise(import_model(path))
    if name == "vgg16conv_126x224":
        path.unlink()
    kinds = Counter(node.compute.kind for node in graph.nodes)
    assert kinds[ComputeKind.CONTRACTION] == CONTRACTIONS[name]
    assert kinds[ComputeKind.MOVEMENT] == 0
    assert optimise(graph) is graph


@pytest.mark.parametrize("name", ["mlp", "mobilenetv2"])
def test_printed_graph(name: str, folder: Path, golden: Callable[[str, str], None]) -> None:
    golden(graph_text(optimise(import_model(filled(name, folder)))), f"graph/{name}")


def test_a_stripped_network_has_no_data() -> None:
    with pytest.raises(ModelError, match="has no data; give a model with its weights"):
        import_model(stripped("mlp"))


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match=r"unknown network '\.\./mlp'; use one of: mlp"):
        stripped("../mlp")


def test_values_depend_on_seed_and_name_only(tmp_path: Path) -> None:
    first, second = filled("mlp", tmp_path / "a"), filled("mlp", tmp_path / "b")
    other = filled("mlp", tmp_path / "a", seed=1)
    assert first.read_bytes() == second.read_bytes()
    assert other != first
    assert other.read_bytes() != first.read_bytes()
    # The values are part of every published measurement: they must never change.
    digest = hashlib.sha256(numpy_helper.to_array(onnx.load(first).graph.initializer[0]).tobytes())
    assert digest.hexdigest()[:16] == "8ade3071526b5e1b"


def test_a_file_that_is_there_is_kept(tmp_path: Path) -> None:
    (tmp_path / "mlp.onnx").write_bytes(b"mine")
    assert filled("mlp", tmp_path).read_bytes() == b"mine"
    assert [p.name for p in tmp_path.iterdir()] == ["mlp.onnx"]


@pytest.mark.parametrize(
    ("recipe", "expected"),
    [('{"kind": "const", "v": 2}', [2.0, 2.0]), ('{"kind": "zlib", "b64": "eJxjYAADBwAASABB"}', None)],
)
def test_exact_recipes(recipe: str, expected: list[float] | None) -> None:
    model = onnx.ModelProto()
    tensor = model.graph.initializer.add(name="t", data_type=1, dims=[2], doc_string=f"fill:{recipe}")
    fill(model)
    values = numpy_helper.to_array(tensor)
    np.testing.assert_array_equal(values, [0.0, 2.0] if expected is None else expected)


def test_an_unknown_recipe_is_an_error() -> None:
    model = onnx.ModelProto()
    model.graph.initializer.add(name="t", data_type=1, dims=[2], doc_string='fill:{"kind": "magic"}')
    with pytest.raises(ValueError, match="asks to be filled by 'magic'"):
        fill(model)


def test_command_line(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[3]
    command = [sys.executable, "-m", "examples.networks", "mlp", str(tmp_path)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=60, check=True)
    assert Path(done.stdout.strip()) == tmp_path / "mlp.onnx"
