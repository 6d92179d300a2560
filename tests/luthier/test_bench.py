from __future__ import annotations

import itertools
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import jsonschema
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from benchmarks.kernel_models import matmul
from compiler.dtype import DType
from compiler.errors import InputError
from compiler.graph.evaluate import evaluate_graph
from compiler.pipeline import load_graph, lower
from compiler.runtime.image import TensorSpec
from compiler.workload.evaluate import evaluate_program
from luthier.bench.canary import Canary
from luthier.bench.engines import make_peer
from luthier.bench.reference import make_inputs, relative_error
from luthier.bench.turns import Sampler, take_turns

Cli = Callable[..., "subprocess.CompletedProcess[str]"]
CONTRACTS = Path(__file__).resolve().parents[2] / "docs" / "contracts"


def test_contenders_take_turns_and_follow_each_other_in_every_way() -> None:
    order: list[str] = []

    def contender(name: str) -> Sampler:
        def sample(_runs: int) -> float:
            order.append(name)
            return 1.0

        return sample

    names = ["a", "b", "c"]
    times = take_turns({n: contender(n) for n in names}, seconds=0.0, settle_s=0.0, rounds=20)
    assert list(times) == names
    assert all((len(t.samples_s), t.runs) == (20, 20) for t in times.values())
    followed = {(before, after) for before, after in itertools.pairwise(order) if before != after}
    assert followed == set(itertools.permutations(names, 2))


def test_samples_between_slow_songs_of_the_canary_do_not_count() -> None:
    clock = itertools.count()

    def disturbed() -> bool:
        return next(clock) % 40 >= 30

    machine = {"disturbed": False}

    def sing(_runs: int) -> float:
        return 1e-3 * (1.5 if machine["disturbed"] else 1.0)

    def sample(_runs: int) -> float:
        machine["disturbed"] = disturbed()
        return 2.0 if machine["disturbed"] else 1.0

    times = take_turns({"a": sample}, seconds=60.0, settle_s=0.0, rounds=20, canary=Canary(sing))["a"]
    assert set(times.samples_s) == {1.0}
    assert 0 < times.disturbed < 0.5


def test_where_no_sample_is_quiet_the_quietest_stand_in() -> None:
    songs = iter(np.linspace(1.0, 3.0, 200))
    canary = Canary(lambda _runs: float(next(songs)))
    times = take_turns({"a": lambda _runs: 7.0}, seconds=0.0, settle_s=0.0, rounds=5, canary=canary)["a"]
    assert times.samples_s == (7.0,) * 5
    assert times.disturbed > 0


def test_the_error_is_relative_to_the_largest_value() -> None:
    reference = {"y": np.array([1.0, -4.0]), "empty": np.zeros((0,))}
    assert relative_error({"y": np.array([1.2, -4.0]), "empty": np.zeros((0,))}, reference) == pytest.approx(
        0.05
    )
    assert relative_error({"y": np.array([np.nan, -4.0]), "empty": np.zeros((0,))}, reference) == float("inf")


def test_the_reference_of_values_that_are_stored_as_parts_of_one() -> None:
    rng = np.random.default_rng(0)
    weights = {"v": (6, 3, 3, 3), "w": (10, 3, 1, 1)}
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "v"], ["a"], pads=[1, 1, 1, 1]),
            helper.make_node("Conv", ["x", "w"], ["b"]),
            helper.make_node("Concat", ["a", "b"], ["y"], axis=1),
        ],
        "joined",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 5, 7])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 16, 5, 7])],
        [numpy_helper.from_array(rng.standard_normal(s).astype(np.float32), n) for n, s in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    imported = load_graph(model)
    program = lower(imported)
    assert program.wholes
    x = {"x": rng.standard_normal((1, 3, 5, 7))}
    found = evaluate_program(program, x)["y"]
    np.testing.assert_allclose(found, evaluate_graph(imported, x)["y"], rtol=1e-12, atol=1e-12)


def test_an_unknown_engine_is_named_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="onnxruntime"):
        make_peer("abacus", Path("model.onnx"), {}, 1)


def test_an_engine_that_refuses_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "bad.onnx").write_bytes(b"nothing")
    with pytest.raises(InputError, match="refuses the model"):
        make_peer("onnxruntime", tmp_path / "bad.onnx", {}, 1)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.onnx"
    onnx.save(matmul(16, 64, 32), path)
    return path


def test_a_profile_names_every_kernel_and_a_trace_holds_all_runs(
    small: Path, cli: Cli, tmp_path: Path
) -> None:
    options = ("--threads", "2", "--seconds", "0.05", "--trace", "trace.json")
    done = cli("bench", small, *options, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    jsonschema.validate(document, json.loads((CONTRACTS / "profile.schema.json").read_text()))
    assert sum(kernel["share"] for kernel in document["kernels"]) <= 1.01
    product = max(document["kernels"], key=lambda kernel: kernel["gflops"])
    assert product["gflops"] == pytest.approx(2 * 16 * 64 * 32 / product["median_us"] / 1e3, rel=0.1)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    # Member 1 may leave a run to the caller.
    counts = [sum(span["tid"] == member for span in spans) for member in (0, 1)]
    assert counts[0] == len(document["kernels"]) * document["runs"] >= counts[1]
    assert counts[1] % len(document["kernels"]) == 0
    assert {span["name"] for span in spans} == {kernel["name"] for kernel in document["kernels"]}


def test_a_profile_of_an_artifact_leaves_out_what_it_does_not_know(small: Path, cli: Cli) -> None:
    assert cli("compile", small, "-o", "small.luthier", "--threads", "1").returncode == 0
    options = ("--threads", "1", "--seconds", "0.05", "--profile")
    shown = cli("bench", "small.luthier", *options)
    assert shown.returncode == 0, shown.stderr
    assert "of roofline" in shown.stdout
    document = json.loads(cli("bench", "small.luthier", *options, "--json").stdout)
    assert {kernel["gflops"] for kernel in document["kernels"]} == {None}


def test_a_profile_is_of_our_kernels_alone(small: Path, cli: Cli) -> None:
    done = cli("bench", small, "--profile", "--against", "onnxruntime")
    assert done.returncode == 2
    assert "leave out --against" in done.stderr


def test_a_trace_that_cannot_be_written_is_refused_before_any_work(small: Path, cli: Cli) -> None:
    done = cli("bench", small, "--trace", "none/trace.json")
    assert done.returncode == 1
    assert "cannot write" in done.stderr


def test_bytes_take_all_their_values() -> None:
    specs = [TensorSpec(d.value, (64, 64), d) for d in (DType.U8, DType.I8, DType.I32)]
    inputs = make_inputs(specs)
    assert (inputs["u8"].min(), inputs["u8"].max()) == (0, 255)
    assert (inputs["i8"].min(), inputs["i8"].max()) == (-128, 127)
    assert (inputs["i32"].min(), inputs["i32"].max()) == (0, 6)
    assert all(np.array_equal(array, make_inputs(specs)[name]) for name, array in inputs.items())
