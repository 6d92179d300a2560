"""The text for GPUs, run on one where there is one, and compared with the float64 reference."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest

from compiler.codegen.grid_entry import launch
from compiler.codegen.llvm import emit_assembly
from compiler.codegen.nest import emit_nest
from compiler.evaluate import reference_outputs
from compiler.loop.ir import LoopNest
from compiler.pipeline import build_nest
from compiler.schedule.schedule import Schedule
from compiler.space.rules import build_space
from compiler.workload.ir import Workload
from tests.compiler.codegen.cuda import Phase, run_phases
from tests.compiler.codegen.test_grid import GPU, in_registers, shared
from tests.compiler.codegen.test_targets import FOR_CROSS, TOLERANCE
from tests.compiler.execute import Arrays, relative_error
from tests.compiler.workloads import convolution, matmul, random_operands, softmax

RANDOM_SCHEDULES = 3
LARGER: dict[str, Workload] = {
    "matmul_of_many_blocks": matmul(509, 301, 127),
    "convolution_of_many_blocks": convolution(31, 37, 53, 3),
    "softmax_of_many_blocks": softmax(700, 333),
}
KINDS_RUN = {**FOR_CROSS, **LARGER}
BY_HAND = {
    "a tile in shared memory": shared(4, 8, ("s0", "s1")),
    "rows in shared memory": shared(4, 8, ("s0",)),
    "one thread for all": shared(4, 8, ()),
    "a sum per thread": in_registers(4, 32),
}


def schedules(kind: str, workload: Workload) -> Iterator[Schedule]:
    """The default and some random ones."""
    space, rng = build_space(workload, GPU, 1), random.Random(kind)
    yield space.schedule(space.default)
    for _ in range(RANDOM_SCHEDULES):
        yield space.schedule(space.sample(rng))


def phases(nest: LoopNest) -> list[Phase]:
    found = []
    for module, body in zip(emit_nest(nest, GPU), nest.phases, strict=True):
        start = launch(body)
        found.append(Phase(emit_assembly(module.ir, GPU), module.symbol, start.blocks, start.threads))
    return found


def arrays_of(nest: LoopNest, operands: Arrays) -> list[np.ndarray]:
    """What the kernel gets; its outputs and scratch memory are poisoned."""
    return [
        operands[b.name] if b.name in operands else np.full(b.shape, 0x5A, np.uint8).astype(b.dtype.numpy)
        for b in nest.params
    ]


def check(workload: Workload, schedule: Schedule) -> None:
    nest, operands = build_nest(workload, schedule), random_operands(workload)
    found = run_phases(phases(nest), arrays_of(nest, operands))
    given = dict(zip((b.name for b in nest.params), found, strict=True))
    for name, expected in reference_outputs(workload, operands).items():
        assert relative_error(given[name], expected) < TOLERANCE, name
    for name, operand in operands.items():
        assert np.array_equal(given.get(name, operand), operand), f"wrote {name}"


@pytest.mark.parametrize("kind", KINDS_RUN)
def test_a_gpu_computes_the_reference(kind: str) -> None:
    for schedule in schedules(kind, KINDS_RUN[kind]):
        check(KINDS_RUN[kind], schedule)


@pytest.mark.parametrize("how", BY_HAND)
def test_the_threads_of_a_block_work_together(how: str) -> None:
    check(matmul(7, 21, 9), BY_HAND[how])
