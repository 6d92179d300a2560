"""Profiles: every kernel has its times, in order, and the result stays the same."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from compiler.codegen.program import SMALL, Call, emit_program
from compiler.pipeline import compile_program, load_graph, lower, lower_any_size
from compiler.runtime.profile import Profiler
from compiler.schedule.source import NoSource
from compiler.target import native_target
from compiler.workload.work import Work


def chain(rows: int | str) -> onnx.ModelProto:
    """A big product, then a small one."""
    rng = np.random.default_rng(0)
    weights = {"v": (64, 512), "w": (512, 8)}
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "v"], ["h"]), helper.make_node("MatMul", ["h", "w"], ["y"])],
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, 8])],
        [numpy_helper.from_array(rng.standard_normal(s).astype(np.float32), n) for n, s in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def random_rows(rows: int) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(1).standard_normal((rows, 64)).astype(np.float32)}


@pytest.mark.parametrize("threads", [1, 2])
def test_kernels_follow_each_other_within_the_run(threads: int) -> None:
    module = compile_program(lower(load_graph(chain(256))), native_target(), threads, NoSource())
    profile = module.profile(random_rows(256), seconds=0.0)
    assert [kernel.name for kernel in profile.kernels] == [call.name for call in module.image.calls]
    runs = len(profile.samples_s)
    assert runs == 2
    assert profile.stamps_ns.shape == (runs, threads, len(profile.phases), 2)
    begins, ends = profile.stamps_ns[..., 0], profile.stamps_ns[..., 1]
    assert np.all(begins > 0)
    assert np.all(ends >= begins)
    # A phase begins when all shares of the one before have ended.
    assert np.all(begins[:, :, 1:].min(axis=1) >= ends[:, :, :-1].max(axis=1))
    assert 0 <= profile.between_s < profile.median_s
    assert all(0 < kernel.busy <= 1 for kernel in profile.kernels)
    module.close()


def test_a_profiled_model_computes_the_same() -> None:
    module = compile_program(lower(load_graph(chain(16))), native_target(), 1, NoSource())
    profiler = Profiler(module.image, random_rows(16))
    profiled = profiler.run()
    np.testing.assert_array_equal(profiled["y"], module.run(random_rows(16))["y"])
    assert list(profiled) == ["y"]
    profiler.close()


def test_bytes_are_those_behind_the_pointers() -> None:
    module = compile_program(lower(load_graph(chain(16))), native_target(), 1, NoSource())
    profile = module.profile(random_rows(16), seconds=0.0)
    constants = sum(kernel.constant_bytes for kernel in profile.kernels)
    assert constants == profile.constant_bytes >= 4 * (64 * 512 + 512 * 8)
    assert sum(kernel.value_bytes for kernel in profile.kernels) >= 4 * 16 * (64 + 2 * 512 + 8)


def test_open_sizes_are_profiled_at_those_of_the_inputs() -> None:
    module = compile_program(lower_any_size(chain("rows")), native_target(), 1, NoSource())
    few, many = (module.profile(random_rows(rows), seconds=0.0) for rows in (2, 64))
    assert sum(k.value_bytes for k in many.kernels) == 32 * sum(k.value_bytes for k in few.kernels)


def test_a_program_that_is_not_profiled_reads_no_clock() -> None:
    large = Work(100 * SMALL)
    calls = (Call("k", (0, 1), 4, large), Call("l", (1, 2), 4, large))
    assert "clock" not in emit_program(calls)
    assert emit_program(calls, stamps=3).count("call void @stamp(") == 4
