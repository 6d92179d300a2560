"""Models with an open batch, from the file to results: compiled once, for every size."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import luthier
from compiler.graph.evaluate import evaluate_graph
from compiler.pipeline import compile_program, load_graph, lower
from compiler.runtime.module import Module
from compiler.schedule.source import NoSource
from compiler.target import native_target
from examples.networks import filled
from luthier.shapes import parse_sizes

BUDGET = 1e-4
SIZES = (1, 2, 7, 32)
Cli = Callable[..., "subprocess.CompletedProcess[str]"]


def with_open_batch(path: Path) -> onnx.ModelProto:
    """The model with its first dimension named "batch"; a Reshape to a batch of 1 takes the rest for the batch."""
    model = onnx.load(path)
    for info in (*model.graph.input, *model.graph.output):
        first = info.type.tensor_type.shape.dim[0]
        first.ClearField("dim_value")
        first.dim_param = "batch"
    targets = {name for node in model.graph.node if node.op_type == "Reshape" for name in node.input[1:]}
    for tensor in _constants(model):
        shape = numpy_helper.to_array(tensor)
        if tensor.name in targets and shape[0] == 1 and -1 not in shape:
            tensor.CopyFrom(numpy_helper.from_array(np.array([-1, *shape[1:]]), tensor.name))
    del model.graph.value_info[:]
    return model


def _constants(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    yield from model.graph.initializer
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute[0].HasField("t"):
            node.attribute[0].t.name = node.output[0]
            yield node.attribute[0].t


def _inputs(module: Module, n: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(n)
    return {s.name: rng.standard_normal(s.sizes({"batch": n})).astype(np.float32) for s in module.inputs}


def _error(got: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> float:
    return max(float(np.max(np.abs(got[k] - wanted[k])) / np.max(np.abs(wanted[k]))) for k in wanted)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ["mobilenetv2", "resnet18"])
def test_a_network_is_right_for_every_batch(name: str, threads: int, tmp_path: Path) -> None:
    model = with_open_batch(filled(name, tmp_path))
    module = luthier.compile(model, threads=threads, database=f"sqlite:///{tmp_path / 'log.db'}")
    for n in SIZES:
        inputs = _inputs(module, n)
        graph = load_graph(model, {key: array.shape for key, array in inputs.items()})
        got = module.run(inputs)
        if n < 3:
            assert _error(got, evaluate_graph(graph, inputs, np.float64)) <= BUDGET
        static = compile_program(lower(graph), native_target(), threads, NoSource())
        assert _error(got, static.run(inputs)) <= BUDGET
        static.close()
    module.close()


def test_an_open_model_is_compiled_once_saved_and_run_for_any_size(cli: Cli, tmp_path: Path) -> None:
    onnx.save(with_open_batch(filled("mlp", tmp_path)), tmp_path / "open.onnx")
    done = cli("compile", tmp_path / "open.onnx", "-o", tmp_path / "open.luthier", "--json")
    assert done.returncode == 0, done.stderr
    assert {task["lookup"] for task in json.loads(done.stdout)["tasks"]} == {"default"}
    module = luthier.load(tmp_path / "open.luthier")
    for n in SIZES:
        inputs = _inputs(module, n)
        graph = (
            load_graph(tmp_path / "mlp.onnx")
            if n == 1
            else load_graph(tmp_path / "open.onnx", {key: array.shape for key, array in inputs.items()})
        )
        assert _error(module.run(inputs), evaluate_graph(graph, inputs, np.float64)) <= BUDGET
    module.close()


def test_a_given_shape_specialises(cli: Cli, tmp_path: Path) -> None:
    onnx.save(with_open_batch(filled("mlp", tmp_path)), tmp_path / "open.onnx")
    name = onnx.load(tmp_path / "open.onnx").graph.input[0].name
    done = cli("compile", tmp_path / "open.onnx", "-o", tmp_path / "four.luthier", "--shape", f"{name}=4,784")
    assert done.returncode == 0, done.stderr
    module = luthier.load(tmp_path / "four.luthier")
    assert module.symbols == ()
    assert [spec.shape for spec in module.inputs] == [(4, 784)]
    module.close()


def test_tuning_and_timing_an_open_model_ask_for_its_sizes(cli: Cli, tmp_path: Path) -> None:
    onnx.save(with_open_batch(filled("mlp", tmp_path)), tmp_path / "open.onnx")
    for command in ("tune", "inspect", "bench"):
        done = cli(command, tmp_path / "open.onnx")
        assert done.returncode == 1
        assert "has the open shape [batch, 784]; give it sizes with --shape" in done.stderr


def test_named_sizes_have_code_of_their_own_in_one_file(cli: Cli, tmp_path: Path) -> None:
    model = with_open_batch(filled("mlp", tmp_path))
    onnx.save(model, tmp_path / "open.onnx")
    (name,) = (info.name for info in model.graph.input)
    sizes = ("--shape", f"{name}=1,784", "--shape", f"{name}=16,784")
    done = cli("compile", tmp_path / "open.onnx", "-o", tmp_path / "named.luthier", "--json", *sizes)
    assert done.returncode == 0, done.stderr
    module = luthier.load(tmp_path / "named.luthier")
    static = luthier.compile(model, shapes={name: (16, 784)}, database=f"sqlite:///{tmp_path / 'log.db'}")
    assert [n for n in (*SIZES, 16) if module.at({name: (n, 784)}) is not module] == [1, 16]
    assert module.at({name: (16, 784)}).image.kernels == static.image.kernels
    assert len(module.lookups) > len(module.image.lookups)
    for n in (*SIZES, 16):
        inputs = _inputs(module, n)
        graph = load_graph(model, {key: array.shape for key, array in inputs.items()})
        assert _error(module.run(inputs), evaluate_graph(graph, inputs, np.float64)) <= BUDGET
    static.close()
    module.close()


def test_sizes_with_the_same_schedules_share_their_constants(tmp_path: Path) -> None:
    model = with_open_batch(filled("mlp", tmp_path))
    (name,) = (info.name for info in model.graph.input)
    log = f"sqlite:///{tmp_path / 'log.db'}"
    module = luthier.compile(model, shapes=[{name: (16, 784)}], threads=1, database=log, predict=False)
    (named,) = module.image.named
    large = [a for a in named.constants if a.nbytes > 1 << 12]
    assert large
    assert {a.ctypes.data for a in large} <= {a.ctypes.data for a in module.image.constants}
    assert len(module.to_bytes()) < 1.5 * sum(a.nbytes for a in module.image.constants)
    module.close()


def test_sizes_that_cannot_be_named_are_one_clear_error(cli: Cli, tmp_path: Path) -> None:
    model = filled("mlp", tmp_path)
    (name,) = (info.name for info in onnx.load(model).graph.input)
    sizes = ("--shape", f"{name}=1,784", "--shape", f"{name}=1,784")
    done = cli("compile", model, "-o", tmp_path / "a.luthier", *sizes)
    assert done.returncode == 1
    assert "leaves no size open" in done.stderr
    done = cli("tune", model, "--trials", "1", *sizes)
    assert done.returncode == 1
    assert "has several shapes; only compile takes more than one size" in done.stderr
    with pytest.raises(luthier.InputError, match="different numbers of shapes"):
        parse_sizes(["a=1", "a=2", "b=1", "b=2", "b=3"])
    assert parse_sizes(["a=1", "b=5", "a=2"]) == [{"a": (1,), "b": (5,)}, {"a": (2,), "b": (5,)}]
