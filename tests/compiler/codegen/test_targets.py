"""The same nests as machine code of every kind of CPU, run, and compared with the float64 reference."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from compiler.codegen.kernel import phase_objects
from compiler.codegen.texts import nest_assembly
from compiler.evaluate import reference_outputs
from compiler.pipeline import build_nest, load_graph, lower
from compiler.scalar import Const, Expr, Load, apply
from compiler.schedule.schedule import Schedule
from compiler.space.rules import build_space
from compiler.target import PRESETS, Target
from compiler.workload.ir import Workload
from tests.compiler.codegen.cross import Call, filled_arena, place_cases, run_aarch64, run_wasm
from tests.compiler.execute import relative_error, run_native
from tests.compiler.frontend.models import model, value
from tests.compiler.workloads import (
    KINDS,
    anchored,
    at,
    convolution,
    layer_norm,
    mapped,
    matmul,
    operand,
    random_operands,
    softmax,
    transpose,
)

RANDOM_SCHEDULES = 0
MORE_SCHEDULES = 12
TOLERANCE = 1e-5

Run = Callable[[list[bytes], list[Call], np.ndarray, Path], np.ndarray]


def gelu(points: int) -> Workload:
    x = Load("x0", at("s0"))
    erf = apply("erf", apply("mul", x, Const(2.0**-0.5)))
    return mapped(
        apply("mul", apply("mul", x, Const(0.5)), apply("add", erf, Const(1.0))),
        (points,),
        (operand("x0", points),),
    )


def gelu_tanh(points: int) -> Workload:
    x = Load("x0", at("s0"))
    cubic = apply("mul", apply("mul", x, apply("mul", x, x)), Const(0.044715))
    inner = apply("tanh", apply("mul", apply("add", x, cubic), Const(0.7978845608)))
    return mapped(
        apply("mul", apply("mul", x, Const(0.5)), apply("add", inner, Const(1.0))),
        (points,),
        (operand("x0", points),),
    )


def softmax_stages(rows: int, columns: int) -> dict[str, Workload]:
    """Largest value of each row, sum of its exponentials, and the quotient."""
    row, inner = at("s0"), at("s0", "r0")
    x, largest, total = operand("x0", rows, columns), operand("x1", rows), operand("x2", rows)

    def exponential(*names: str) -> Expr:
        return apply("exp", apply("sub", Load("x0", at(*names)), Load("x1", row)))

    quotient = apply("div", exponential("s0", "s1"), apply("add", apply("abs", Load("x2", row)), Const(1.0)))
    return {
        "softmax_max": anchored((rows,), (columns,), "max", Load("x0", inner), (x,)),
        "softmax_sum": anchored((rows,), (columns,), "sum", exponential("s0", "r0"), (x, largest)),
        "softmax_quotient": mapped(quotient, (rows, columns), (x, largest, total)),
    }


REPRESENTATIVE: dict[str, Workload] = {
    **{n: w for n, w in KINDS.items() if n not in ("pointwise", "convolution_strided", "depthwise_strided")},
    **softmax_stages(9, 45),
    "softmax": softmax(9, 60),
    "layer_norm": layer_norm(7, 37),
    "gelu": gelu(61),
    "gelu_tanh": gelu_tanh(61),
    "matmul_large": matmul(37, 70, 64),
    "winograd": convolution(10, 12, 21, 3),
    "transpose_square": transpose(32, 32),
}


def quantised() -> dict[str, Workload]:
    """Whole numbers: their product, and conversions that are exact because the scale is a power of two."""
    scale, zero = np.float32(0.25), np.uint8(7)
    weights = np.random.default_rng(0).integers(-128, 128, (21, 33)).astype(np.int8)
    models = {
        "quantise": (("QuantizeLinear", "x", "scale", "zero"), TensorProto.FLOAT, [9, 45]),
        "dequantise": (("DequantizeLinear", "x", "scale", "zero"), TensorProto.UINT8, [9, 45]),
        "whole_product": (("MatMulInteger", "x", "weights", "zero"), TensorProto.UINT8, [9, 21]),
    }
    found = {}
    for name, ((operator, *inputs), kind, shape) in models.items():
        every = {"scale": scale, "zero": zero, "weights": weights}
        constants = {n: np.asarray(every[n]) for n in inputs if n in every}
        proto = model([helper.make_node(operator, inputs, ["y"])], {}, constants)
        proto.graph.input.append(value("x", shape, kind))
        (subgraph,) = lower(load_graph(proto)).subgraphs
        found[name] = subgraph.workload
    return found


FOR_CROSS: dict[str, Workload] = {**REPRESENTATIVE, **quantised()}


def schedules(
    workloads: Mapping[str, Workload], target: Target, count: int = RANDOM_SCHEDULES
) -> list[tuple[str, Workload, Schedule]]:
    """The default of every kernel and so many random schedules; with those every algorithm's own start, else one."""
    found = []
    for name, workload in workloads.items():
        space = build_space(workload, target, 2)
        rng = random.Random(name)
        starts = space.starts if count else space.starts[:1]
        chosen = [space.default, *starts, *(space.sample(rng) for _ in range(count))]
        found += [(name, workload, space.schedule(assignment)) for assignment in chosen]
    return found


def check(run: Run, name: str, folder: Path, count: int = RANDOM_SCHEDULES) -> None:
    target = PRESETS[name]
    cases, size = place_cases(schedules(FOR_CROSS, target, count), target)
    calls = [call for case in cases for call in case.calls()]
    arena = run(
        list(phase_objects(c.kernel for c in cases).values()), calls, filled_arena(cases, size), folder
    )
    errors = {f"{case.name} {case.kernel.name}": case.error(arena) for case in cases}
    assert {case.name for case in cases} == set(FOR_CROSS)
    assert not {name: error for name, error in errors.items() if not error < TOLERANCE}


def test_x86_64_v3_on_this_machine() -> None:
    target = PRESETS["x86-64-v3"]
    if not target.is_native:
        pytest.skip("this processor lacks AVX2 and FMA")
    for name, workload, schedule in schedules(REPRESENTATIVE, target, 0):
        operands = random_operands(workload)
        got = run_native(workload, schedule, operands, 2, target)
        assert relative_error(got, reference_outputs(workload, operands)["y0"]) < TOLERANCE, name


def test_aarch64_under_qemu(tmp_path: Path) -> None:
    check(run_aarch64, "aarch64-neoverse-n1", tmp_path)


def test_wasm32_under_wasmtime(tmp_path: Path) -> None:
    check(run_wasm, "wasm32", tmp_path)


@pytest.mark.slow
def test_more_schedules(tmp_path: Path) -> None:
    for name, run in (("aarch64-cortex-a72", run_aarch64), ("wasm32", run_wasm)):
        (tmp_path / name).mkdir()
        check(run, name, tmp_path / name, MORE_SCHEDULES)


@pytest.mark.parametrize(
    ("name", "instruction"),
    [("x86-64-v3", "vfmadd"), ("aarch64-neoverse-n1", "fmla"), ("wasm32", "f32x4.mul")],
)
def test_a_contraction_uses_the_vectors_of_its_target(name: str, instruction: str) -> None:
    target, workload = PRESETS[name], convolution(28, 64, 64, 3)
    space = build_space(workload, target, 1)
    assembly = nest_assembly(build_nest(workload, space.schedule(space.default)), target)
    assert assembly.count(instruction) >= 8


def default_assembly(workload: Workload, target: Target) -> list[str]:
    space = build_space(workload, target, 1)
    nest = build_nest(workload, space.schedule(space.default))
    return nest_assembly(nest, target).splitlines()


def test_coefficients_are_operands_in_memory_where_registers_are_few() -> None:
    few = default_assembly(gelu(512), PRESETS["x86-64-v3"])
    assert not any("(%rsp)" in line and "%ymm" in line for line in few)
    assert sum("vfmadd" in line and "(%rip)" in line for line in few) >= 32
    many = default_assembly(gelu(512), PRESETS["aarch64-neoverse-n1"])
    assert not any("fmla" in line and "[" in line for line in many)


def test_the_largest_of_a_row_costs_an_instruction_a_vector() -> None:
    x86 = default_assembly(softmax(8, 128), PRESETS["x86-64-v3"])
    assert any("vmaxps" in line for line in x86)
    assert not any("vcmpunord" in line for line in x86)
    arm = default_assembly(softmax(8, 128), PRESETS["aarch64-neoverse-n1"])
    assert any(line.split()[:1] == ["fmax"] for line in arm)


def test_registers_spilled_to_the_stack_never_cross_its_lines() -> None:
    """One that crosses the end of a page took longer than all the rest of an iteration."""
    target = PRESETS["x86-64-v3"]
    workload = gelu_tanh(512)
    space = build_space(workload, target, 1)
    assert space.values(space.default)["width"] == 4
    assembly = nest_assembly(build_nest(workload, space.schedule(space.default)), target)
    spilled = [line for line in assembly.splitlines() if "(%rsp)" in line and "%ymm" in line]
    assert spilled
    assert not any("vmovup" in line or "vmovdqu" in line for line in spilled)
