"""One kernel over a symbolic batch is right for every size, under any legal schedule, on one and on two threads."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from compiler.dtype import DType
from compiler.errors import ScheduleError
from compiler.evaluate import reference_outputs
from compiler.index import Index
from compiler.loop.interpreter import interpret
from compiler.loop.ir import For, LoopKind, walk_statements
from compiler.loop.printer import print_nest
from compiler.pipeline import build_kernel, build_nest
from compiler.runtime.loader import LoadedKernel
from compiler.scalar import Load
from compiler.schedule.primitives import replay
from compiler.schedule.schedule import Schedule
from compiler.schedule.steps import Bind, Fuse, Reorder, RFactor, Split
from compiler.space.rules import build_space
from compiler.symbol import Axis, size_at
from compiler.target import LINE_BYTES, PRESETS, native_target
from compiler.workload.canonical import canonicalise
from compiler.workload.ir import Operand, Stage, Workload
from compiler.workload.specialise import specialise
from tests.compiler.execute import relative_error
from tests.compiler.schedule.test_random_schedules import tolerance
from tests.compiler.symbolic import BATCH, SIZES, SYMBOLIC, symbolic_rows
from tests.compiler.workloads import anchored, at, operand, random_operands, row_sum
from tests.conftest import Golden

BEHIND = 7.0


def _with_a_row_behind(sizes: tuple[int, ...]) -> np.ndarray:
    output = np.full((sizes[0] + 1, *sizes[1:]), np.nan, np.float32)
    output[-1] = BEHIND
    return output


def _errors(workload: Workload, schedule: Schedule, threads: int) -> list[float]:
    """Of one kernel, for each size; outputs and scratch are poisoned, a row behind the output must stay as it is."""
    kernel = build_kernel(workload, schedule, native_target())
    loaded = LoadedKernel(kernel, threads)
    errors = []
    try:
        for n in SIZES:
            static = specialise(workload, {"n0": n})
            operands = random_operands(static, seed=n)
            outputs = {o.name: _with_a_row_behind(o.sizes) for o in static.outputs}
            arrays = dict(outputs)
            for p in kernel.params:
                if p.role == "scratch":
                    arrays[p.name] = np.full(p.sizes({"n0": n}), np.nan, p.dtype.numpy)
                elif p.role != "output":
                    source = operands[p.name]
                    arrays[p.name] = source if p.packing is None else p.packing.apply(source)
            loaded.run([arrays[p.name].ctypes.data for p in kernel.params], [n])
            expected = reference_outputs(static, operands)
            for name, output in outputs.items():
                assert (output[-1] == BEHIND).all()
                errors.append(relative_error(output[:-1], expected[name]))
    finally:
        loaded.close()
    return errors


def _check(kind: str, samples: int) -> None:
    workload, rng = SYMBOLIC[kind], random.Random(kind)
    for threads in (1, 2):
        space = build_space(workload, native_target(), threads)
        for assignment in (space.default, *(space.sample(rng) for _ in range(samples))):
            plan = space.schedule(assignment)
            assert max(_errors(workload, plan, threads)) < tolerance(plan), space.values(assignment)


@pytest.mark.parametrize("kind", SYMBOLIC)
def test_a_kernel_is_right_for_every_size(kind: str) -> None:
    _check(kind, 1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SYMBOLIC)
def test_random_schedules_are_right_for_every_size(kind: str) -> None:
    _check(kind, 40)


@pytest.mark.parametrize("threads", [1, 2])
def test_rows_from_whole_lines_are_right_for_every_size(threads: int) -> None:
    """Where the hint is a number of blocks; the last one may not be full."""
    workload = replace(symbolic_rows(row_sum(1, 49)), symbols=(replace(BATCH, hints=(64,)),))
    space = build_space(workload, native_target(), threads)
    values = space.values(space.default)
    assert native_target().vector_bytes < LINE_BYTES or values["algorithm"] == "skewed"
    schedule = space.schedule(space.default)
    assert max(_errors(workload, schedule, threads)) < tolerance(schedule)


def test_rows_that_nobody_knows_the_distance_of_are_read_as_they_are() -> None:
    """An image of any number of rows: how a row begins depends on it."""
    read = Load("x0", at("s0", "s1", "r0"))
    fixed = anchored((3, 64), (49,), "sum", read, (operand("x0", 3, 64, 49),))
    n = Index.of("n0")

    def opened(operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
        return tuple(replace(o, shape=(o.shape[0], n, *o.shape[2:])) for o in operands)

    workload = Workload(
        opened(fixed.operands),
        opened(fixed.temporaries),
        opened(fixed.outputs),
        tuple(replace(s, axes=(s.axes[0], Axis("s1", n))) for s in fixed.stages),
        (replace(BATCH, hints=(64,)),),
    )
    space = build_space(workload, PRESETS["x86-64-v4"], 1)
    assert space.values(space.default)["algorithm"] == "direct"


@pytest.mark.parametrize("threads", [1, 2])
def test_winograd_in_blocks_is_right_for_every_size(threads: int) -> None:
    workload = SYMBOLIC["convolution_of_blocks"]
    space = build_space(workload, native_target(), threads)
    found = [a for a in space.starts if str(space.values(a)["algorithm"]).endswith("in blocks")]
    assert found
    for assignment in found:
        assert max(_errors(workload, space.schedule(assignment), threads)) < 1e-4


@pytest.mark.parametrize("kind", ["matmul_rows", "add_relu_rows", "mean", "row_sum"])
@pytest.mark.parametrize("target", ["x86-64-v3", "aarch64-neoverse-n1"])
def test_the_interpreter_agrees(kind: str, target: str) -> None:
    workload = SYMBOLIC[kind]
    space = build_space(workload, PRESETS[target], 2)
    nest = build_nest(workload, space.schedule(space.sample(random.Random(3))))
    for n in (1, 3):
        static = specialise(workload, {"n0": n})
        operands = random_operands(static)
        arrays = {
            b.name: operands[b.name] if b.packing is None else b.packing.apply(operands[b.name])
            for b in nest.params
            if b.role in ("input", "constant")
        }
        arrays["y0"] = np.full(
            [size_at(size, {"n0": n}) for size in nest.by_name["y0"].shape], np.nan, np.float32
        )
        interpret(nest, arrays, {"n0": n})
        assert relative_error(arrays["y0"], reference_outputs(static, operands)["y0"]) < 1e-5


def _copied(workload: Workload, schedule: Schedule) -> list[For]:
    nest = build_nest(workload, schedule)
    kinds = (LoopKind.VECTOR, LoopKind.UNROLLED)
    return [s for s in walk_statements(nest.body) if isinstance(s, For) and s.kind in kinds]


def test_unrolled_loops_do_not_depend_on_symbols() -> None:
    for kind, workload in SYMBOLIC.items():
        space = build_space(workload, native_target(), 2)
        for loop in _copied(workload, space.schedule(space.default)):
            open_ = loop.extent.bound is not None and "n0" in loop.extent.bound.names()
            assert not open_ or loop.kind is LoopKind.VECTOR, kind


def test_a_tile_that_divides_every_size_has_no_edge() -> None:
    canonical = canonicalise(SYMBOLIC["add_relu"]).workload
    (axis,) = canonical.stages[0].axes
    assert str(axis.extent) == "n0*315"
    split = (Split("map", axis.name, 7), Bind("map", f"{axis.name}.i", LoopKind.UNROLLED))
    assert "if" not in print_nest(build_nest(canonical, Schedule(split)))
    split = (Split("map", axis.name, 6), Bind("map", f"{axis.name}.i", LoopKind.UNROLLED))
    assert print_nest(build_nest(canonical, Schedule(split))).count("if") == 2  # full, or 3 left


def test_the_nest_of_ragged_rows(golden: Golden) -> None:
    steps = (
        Split("map", "s1", 8),
        Split("map", "s0", 3),
        Reorder("map", ("s0.o", "s1.o", "s0.i", "s1.i")),
        Bind("map", "s0.i", LoopKind.UNROLLED),
        Bind("map", "s1.i", LoopKind.VECTOR),
        Bind("map", "s0.o", LoopKind.PARALLEL),
    )
    golden(print_nest(build_nest(SYMBOLIC["add_relu_rows"], Schedule(steps))), "symbolic_rows")


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ((Bind("map", "s0", LoopKind.UNROLLED),), "only known at run time"),
        ((Fuse("map", "s0", "s1"), Bind("map", "s0*s1", LoopKind.VECTOR)), "only known at run time"),
        ((Split("map", "s0", 64), Bind("map", "s0.i", LoopKind.UNROLLED)), "63 lengths; use smaller tiles"),
        ((Split("map", "s0", 2), Fuse("map", "s0.i", "s1")), "depends on a loop"),
    ],
)
def test_what_a_symbolic_extent_forbids(steps: tuple[Split | Bind | Fuse, ...], message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        replay(SYMBOLIC["add_relu_rows"], Schedule(steps))


def test_an_inner_symbolic_loop_can_be_fused() -> None:
    """The parts are found by a quotient and a remainder by the size of the call."""
    steps = (Reorder("map", ("s1", "s0")), Fuse("map", "s1", "s0"), Bind("map", "s1*s0", LoopKind.PARALLEL))
    for threads in (1, 2):
        assert max(_errors(SYMBOLIC["add_relu_rows"], Schedule(steps), threads)) < 1e-5


def test_a_sum_of_open_length_can_be_factored() -> None:
    """Partial sums in the lanes of a vector; in the last one the lanes past the end add nothing."""
    workload = _column_sums()
    steps = (
        Split("sum", "r0", 8),
        RFactor("sum", "r0.i"),
        Reorder("sum.r0.i", ("s0", "r0.o", "r0.i")),
        Bind("sum.r0.i", "r0.i", LoopKind.VECTOR),
        Bind("sum", "r0.i", LoopKind.VECTOR),
    )
    assert max(_errors(workload, Schedule(steps), 1)) < 1e-5


def _column_sums() -> Workload:
    """y[s0] = sum over an open r0 of x[s0, r0], for three rows."""
    n = Index.of("n0")
    rows, summed = Axis("s0", Index.of(3)), Axis("r0", n)
    x = Operand("x0", (Index.of(3), n), DType.F32)
    y = Operand("y0", (Index.of(3),), DType.F32)
    place = (Index.of("s0"),)
    stage = Stage("sum", (rows,), (summed,), "sum", Load("x0", (Index.of("s0"), Index.of("r0"))), "y0", place)
    return Workload((x,), (), (y,), (stage,), (BATCH,))
