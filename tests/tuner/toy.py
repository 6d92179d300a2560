"""Toy Tasks for the tuner's tests: real Workloads, hand-made spaces, and times that a formula gives."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from compiler.dtype import DType
from compiler.index import Index
from compiler.scalar import Apply, Load
from compiler.schedule.schedule import Schedule
from compiler.schedule.steps import Split
from compiler.space.space import Knob, SearchSpace
from compiler.symbol import axis
from compiler.target import PRESETS
from compiler.workload.ir import Operand, Stage, Workload
from tuner.candidate import Candidate
from tuner.measure import FailureKind, Measured, MeasureFailed, MeasureResult
from tuner.task import Task

TARGET = PRESETS["x86-64-v4"]
LOOPS = {"i": ("anchor", "i"), "j": ("anchor", "j"), "k": ("anchor", "r"), "l": ("epilogue", "i")}
KNOBS = tuple(LOOPS)
FACTORS = tuple(range(1, 21))
NAMES = (*KNOBS, *(f"{a}{b}" for a, b in itertools.pairwise(KNOBS)))


def matmul(m: int, n: int, k: int) -> Workload:
    """abs(x @ w), as partitioning makes it: a reduction and the map that follows."""
    i, j, r = Index.of("i"), Index.of("j"), Index.of("r")
    x, w, t, y = (
        _operand(name, *shape) for name, *shape in (("x", m, k), ("w", k, n), ("t", m, n), ("y", m, n))
    )
    axes = (axis("i", m), axis("j", n))
    product = Apply("mul", (Load("x", (i, r)), Load("w", (r, j))))
    return Workload(
        operands=(x, Operand(w.name, w.shape, w.dtype, constant=True)),
        temporaries=(t,),
        outputs=(y,),
        stages=(
            Stage("anchor", axes, (axis("r", k),), "sum", product, "t", (i, j)),
            Stage("epilogue", axes, (), None, Apply("abs", (Load("t", (i, j)),)), "y", (i, j)),
        ),
    )


def _operand(name: str, *shape: int) -> Operand:
    return Operand(name, tuple(Index.of(size) for size in shape), DType.F32)


def task(size: int = 64, weight: int = 1) -> Task:
    """A Task whose time grows with its size."""
    return Task(matmul(size, size, size), TARGET, 1, weight, f"toy {size}")


def space(count: int = len(FACTORS)) -> SearchSpace:
    """Four split factors; a product above 40,000 is illegal. 160,000 assignments with all factors."""
    return SearchSpace(
        knobs=tuple(Knob(name, FACTORS[:count]) for name in KNOBS),
        default=(0, 0, 0, 0),
        legal=lambda values: math.prod(int(values[name]) for name in KNOBS) <= 40_000,
        build=lambda values: Schedule(tuple(Split(*LOOPS[name], int(values[name])) for name in KNOBS)),
    )


def factors(schedule: Schedule) -> tuple[int, ...]:
    return tuple(step.factor for step in schedule.steps)


def features(_: Task, candidates: Sequence[Candidate]) -> np.ndarray:
    """The factors and the products of neighbours."""
    chosen = [factors(candidate.schedule) for candidate in candidates]
    rows = [[*c, *(a * b for a, b in itertools.pairwise(c))] for c in chosen]
    return np.array(rows, dtype=np.float64)


def seconds(of: Task, schedule: Schedule) -> float:
    """Smooth with one optimum, at (8, 12, 4, 16), five times faster than the default, and interactions."""
    i, j, k, l = factors(schedule)  # noqa: E741
    distance = abs(math.log2(i / 8)) + abs(math.log2(j / 12)) + abs(math.log2(k / 4)) + abs(math.log2(l / 16))
    clash = 0.15 * abs(math.log2(i * j / 96))
    return of.workload.operations * 1e-9 * (1 + 0.3 * distance + clash)


def fails(schedule: Schedule) -> bool:
    """A corner of the space does not work."""
    i, j, _, _ = factors(schedule)
    return i > 14 or j > 17


def simulate(of: Task, schedule: Schedule) -> MeasureResult:
    """`seconds`, or a failure where it `fails`."""
    if fails(schedule):
        return MeasureFailed(FailureKind.WRONG_OUTPUT, "wrong by 1.0; this corner is broken")
    return measured(seconds(of, schedule))


def measured(time_s: float, spread: float = 0.001) -> Measured:
    return Measured(tuple(time_s * (1 + spread * step) for step in (-1, 0, 1)), 1e-7)


def default() -> Schedule:
    """The default of every toy space."""
    return space().schedule((0, 0, 0, 0))
