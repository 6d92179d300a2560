"""Module: results, threads, bad arrays, artifacts."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from compiler.errors import InputError, TargetError
from compiler.pipeline import compile_image, compile_program, load_graph, lower
from compiler.runtime.artifact import image_bytes, read_image
from compiler.runtime.module import Module, load_module
from compiler.schedule.source import NoSource
from compiler.target import PRESETS, native_target


def small_model(seed: int = 0) -> onnx.ModelProto:
    """Two padded convolutions with a residual, a pool and a matrix product: every kind of buffer."""
    rng = np.random.default_rng(seed)

    def constant(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)

    nodes = [
        helper.make_node("Conv", ["x", "w0", "b0"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w1"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["c", "b"], ["d"]),
        helper.make_node("MaxPool", ["d"], ["e"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["e"], ["f"]),
        helper.make_node("Gemm", ["f", "w2", "b2"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 10, 10])],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 7]),
            helper.make_tensor_value_info("d", TensorProto.FLOAT, [1, 12, 10, 10]),
        ],
        [
            constant("w0", 12, 3, 3, 3),
            constant("b0", 12),
            constant("w1", 12, 12, 3, 3),
            constant("w2", 300, 7),
            constant("b2", 7),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def compiled(threads: int = 1) -> Module:
    return compile_program(lower(load_graph(small_model())), native_target(), threads, NoSource())


def expected(x: np.ndarray) -> dict[str, np.ndarray]:
    y, d = ReferenceEvaluator(small_model()).run(None, {"x": x})
    return {"y": y, "d": d}


def random_input(seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((1, 3, 10, 10)).astype(np.float32)


def assert_close(got: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    assert list(got) == list(wanted)
    for name, array in wanted.items():
        assert got[name].shape == array.shape
        assert np.max(np.abs(got[name] - array)) <= 1e-5 * np.max(np.abs(array))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_run(threads: int) -> None:
    module = compiled(threads)
    for seed in range(3):
        x = random_input(seed)
        assert_close(module.run({"x": x}), expected(x))
    module.close()
    assert_close(module.run({"x": random_input()}), expected(random_input()))


def test_run_into_writes_the_given_arrays() -> None:
    module = compiled()
    outputs = {"y": np.full((1, 7), np.nan, np.float32), "d": np.full((1, 12, 10, 10), np.nan, np.float32)}
    module.run_into({"x": random_input()}, outputs)
    assert_close(outputs, expected(random_input()))


def test_an_input_that_is_not_contiguous() -> None:
    x = np.asfortranarray(random_input())
    assert_close(compiled().run({"x": x}), expected(random_input()))


BAD_INPUTS = {
    "missing": ({}, "'x' is missing"),
    "unknown": ({"x": random_input(), "z": random_input()}, "no input 'z'"),
    "wrong shape": ({"x": random_input()[:, :2]}, "of shape"),
    "wrong dtype": ({"x": random_input().astype(np.float64)}, "float64"),
}


@pytest.mark.parametrize("case", BAD_INPUTS)
def test_bad_inputs_get_one_sentence(case: str) -> None:
    inputs, message = BAD_INPUTS[case]
    with pytest.raises(InputError, match=message):
        compiled().run(inputs)


def test_an_output_that_cannot_be_written() -> None:
    outputs = {"y": np.empty((1, 7), np.float32), "d": np.empty((1, 12, 10, 10), np.float32)}
    outputs["y"].flags.writeable = False
    with pytest.raises(InputError, match="writeable"):
        compiled().run_into({"x": random_input()}, outputs)


def test_save_and_load(tmp_path: Path) -> None:
    module = compiled(2)
    path = tmp_path / "small.luthier"
    module.save(path)
    loaded = load_module(path)
    assert loaded.inputs == module.inputs
    assert loaded.outputs == module.outputs
    assert loaded.lookups == module.lookups
    x = random_input()
    first, second = module.run({"x": x}), loaded.run({"x": x})
    for name in first:
        np.testing.assert_array_equal(first[name], second[name])
    assert [p.name for p in tmp_path.iterdir()] == ["small.luthier"]


def test_the_artifact_is_reproducible() -> None:
    assert compiled().to_bytes() == compiled().to_bytes()


@pytest.mark.parametrize("damage", ["not an artifact", "short", "long", "empty"])
def test_damaged_artifacts_are_refused(damage: str, tmp_path: Path) -> None:
    data = compiled().to_bytes()
    path = tmp_path / "damaged.luthier"
    path.write_bytes(
        {"not an artifact": b"\x7fELF" + data, "short": data[:-9], "long": data + b"x", "empty": b""}[damage]
    )
    with pytest.raises(InputError, match=r"not a \.luthier file|damaged"):
        load_module(path)


def test_a_program_may_give_its_constants_up() -> None:
    program = lower(load_graph(small_model()))
    kept = compile_image(program, native_target(), 1, NoSource())
    assert program.constants
    consumed = compile_image(program, native_target(), 1, NoSource(), consume=True)
    assert not program.constants
    assert image_bytes(kept) == image_bytes(consumed)


def test_one_wrong_bit_is_found_wherever_it_is() -> None:
    data = compiled().to_bytes()
    image = read_image(data)
    kernel = next(iter(image.kernels.values()))
    parts = [image.team, image.program, kernel.phases[0].object_code, *(a.tobytes() for a in image.constants)]
    places = [data.index(part) + offset for part in parts for offset in (0, len(part) // 2, len(part) - 1)]
    for place in (9, 20, 100, *places):
        wrong = bytearray(data)
        wrong[place] ^= 4
        with pytest.raises(InputError, match="damaged"):
            read_image(bytes(wrong))


def test_an_artifact_of_another_version_says_so() -> None:
    with pytest.raises(InputError, match="another version"):
        read_image(b"LUTHIER1" + bytes(200))


def test_a_loaded_model_outlives_its_file(tmp_path: Path) -> None:
    path = tmp_path / "small.luthier"
    compiled().save(path)
    loaded = load_module(path)
    compiled().save(path)  # replaced, not written over
    path.unlink()
    assert_close(loaded.run({"x": random_input()}), expected(random_input()))


def test_a_missing_artifact(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read"):
        load_module(tmp_path / "none.luthier")


def test_saving_where_nothing_can_be_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot write"):
        compiled().save(tmp_path / "none" / "small.luthier")


def test_code_for_another_machine_is_not_run() -> None:
    with pytest.raises(TargetError, match="cannot run"):
        compile_program(lower(load_graph(small_model())), PRESETS["aarch64-neoverse-n1"], 1, NoSource())


def test_lookups_name_every_task() -> None:
    module = compiled()
    assert {t.lookup for t in module.lookups} == {"default"}
    assert sum(t.weight for t in module.lookups) >= 5


def test_time_is_positive() -> None:
    assert compiled().time_s({"x": random_input()}, 3) > 0


def test_a_team_is_right_beside_threads_that_keep_all_cores_busy() -> None:
    module, x, stop = compiled(2), random_input(), threading.Event()
    right = module.run({"x": x})

    def spin() -> None:
        ones = np.ones(1 << 16)
        while not stop.is_set():
            ones.sum()

    spinners = [threading.Thread(target=spin) for _ in range(2)]
    for thread in spinners:
        thread.start()
    try:
        for _ in range(200):
            for name, value in module.run({"x": x}).items():
                np.testing.assert_array_equal(value, right[name])
    finally:
        stop.set()
        for thread in spinners:
            thread.join()
