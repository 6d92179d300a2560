"""The LLVM IR of nests: goldens before optimisation, properties after it, right machine code at the edges."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from compiler.codegen.llvm import emit_assembly
from compiler.codegen.nest import emit_nest
from compiler.errors import CompileError, TargetError
from compiler.evaluate import reference_outputs
from compiler.loop.ir import LoopKind
from compiler.pipeline import build_kernel, build_nest, default_schedule
from compiler.scalar import Const, Load, apply
from compiler.schedule.schedule import Schedule
from compiler.schedule.steps import Bind, Split
from compiler.target import PRESETS, Target, get_target, native_target
from tests.compiler.execute import relative_error, run_native
from tests.compiler.workloads import KINDS, at, convolution, mapped, matmul, operand, random_operands

Golden = Callable[[str, str], None]
V4 = PRESETS["x86-64-v4"]


@pytest.mark.parametrize("name", ["matmul", "depthwise", "max_pool", "add_relu"])
def test_unoptimised_ir(name: str, golden: Golden) -> None:
    workload = {**KINDS, "matmul": matmul(3, 20, 5)}[name]
    nest = build_nest(workload, default_schedule(workload, V4, 1))
    golden(emit_nest(nest, V4), f"codegen/{name}")


def test_a_contraction_keeps_its_accumulators_in_registers() -> None:
    workload = convolution(28, 64, 64, 3)
    nest = build_nest(workload, default_schedule(workload, V4, 1))
    assembly = emit_assembly(emit_nest(nest, V4), V4)
    fused = [line for line in assembly.splitlines() if "vfmadd" in line]
    assert fused
    assert all("zmm" in line for line in fused)
    assert "(%rsp)" not in "".join(fused)


def test_a_ragged_channel_count_uses_masked_vectors() -> None:
    workload = convolution(5, 8, 37, 1)
    ir = emit_nest(build_nest(workload, default_schedule(workload, V4, 1)), V4)
    assert "llvm.masked.store.v16f32" in ir
    assert "call float @llvm.fma.f32" not in ir


@pytest.mark.parametrize("target", sorted(PRESETS))
def test_every_target_gets_code(target: str) -> None:
    for workload in (KINDS["convolution"], KINDS["max_pool"], KINDS["transpose"]):
        kernel = build_kernel(workload, default_schedule(workload, PRESETS[target], 2), PRESETS[target])
        assert kernel.object_code.startswith(b"\x7fELF")


def test_the_same_candidate_gives_the_same_bytes() -> None:
    workload = KINDS["convolution"]
    schedule = default_schedule(workload, V4, 1)
    assert (
        build_kernel(workload, schedule, V4).object_code == build_kernel(workload, schedule, V4).object_code
    )


def test_maximum_propagates_nan_and_keeps_infinities() -> None:
    names = at("s0")
    body = apply("max", Load("x0", names), Const(0.0))
    workload = mapped(body, (6,), (operand("x0", 6),))
    values = np.array([np.nan, np.inf, -np.inf, -1.0, 2.0, -0.0], np.float32)
    got = run_native(workload, default_schedule(workload, native_target(), 1), {"x0": values})
    np.testing.assert_array_equal(got, np.maximum(values, np.float32(0)))


def test_an_unscheduled_reduction_keeps_its_result_in_scratch_memory() -> None:
    kernel = build_kernel(KINDS["matmul"], Schedule(()), V4)
    assert [p.name for p in kernel.params if p.role == "scratch"] == ["t0"]
    assert kernel.parallel_extents == (1,)


def test_an_unknown_target_names_the_known_ones() -> None:
    with pytest.raises(TargetError, match="x86-64-v3"):
        get_target("z80")


def test_a_target_that_llvm_lacks_is_refused() -> None:
    fields = {**V4.__dict__, "triple": "z80-unknown-none", "name": "z80"}
    fields.pop("digest", None)
    with pytest.raises(TargetError, match="z80"):
        build_kernel(KINDS["matmul"], default_schedule(KINDS["matmul"], V4, 1), Target(**fields))


def test_an_unscheduled_reduction_computes_in_scratch_memory() -> None:
    workload = matmul(3, 5, 7)
    operands = random_operands(workload)
    got = run_native(
        workload, Schedule((Split("anchor", "r0", 7), Bind("anchor", "r0.i", LoopKind.UNROLLED))), operands
    )
    assert relative_error(got, reference_outputs(workload, operands)["y0"]) < 1e-5


def test_more_loops_than_llvm_can_number_are_refused() -> None:
    names = [f"s{i}" for i in range(4)]
    workload = mapped(Load("x0", at(*names)), (4, 8, 12, 3), (operand("x0", 4, 8, 12, 3),))
    steps = [Bind("map", name, LoopKind.UNROLLED) for name in names[1:3]]
    schedule = Schedule((Bind("map", "s0", LoopKind.PARALLEL), *steps))
    with pytest.raises(CompileError, match="unrolls to more than 64 loops; unroll less"):
        build_kernel(workload, schedule, native_target())
