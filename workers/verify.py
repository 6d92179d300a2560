"""Verification: a candidate runs on guarded memory and must give the reference, and change nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from compiler.codegen.kernel import Kernel, Param
from compiler.dtype import DType
from tuner.measure import FailureKind, MeasureFailed
from workers.case import Bytes, Case, Expected, unwritten
from workers.memory import GuardedBuffer

_SCRATCH_BYTE = 0x5A


@dataclass(frozen=True, eq=False)
class Placed:
    """One parameter in memory, and the bytes that it starts with."""

    param: Param
    buffer: GuardedBuffer
    initial: Bytes


@dataclass(frozen=True, eq=False)
class Arguments:
    """All parameters of a kernel in memory."""

    placed: tuple[Placed, ...]

    @property
    def pointers(self) -> list[int]:
        """Addresses in the order of the kernel's parameters."""
        return [p.buffer.address for p in self.placed]

    def align(self) -> None:
        """Move the data to where the runtime places it, and write again what a run has changed."""
        for p in self.placed:
            if p.buffer.align() or p.param.role in ("output", "scratch"):
                p.buffer.data[:] = p.initial


@contextmanager
def place(kernel: Kernel, case: Case) -> Iterator[Arguments]:
    """Memory for a kernel, filled, each parameter's last byte beside a guard; freed at the end.

    Raises:
        KeyError: the kernel has a parameter that the Workload has not.
        ValueError: a parameter's size is not that of its data.
        MemoryError: there is no room.
    """
    with ExitStack() as stack:
        placed = []
        for param in kernel.params:
            initial = _initial(param, case)
            if initial.size != param.size_bytes:
                msg = f"parameter {param.name} has {param.size_bytes} bytes, its data {initial.size}"
                raise ValueError(msg)
            buffer = GuardedBuffer(param.size_bytes)
            stack.callback(buffer.close)
            buffer.data[:] = initial
            placed.append(Placed(param, buffer, initial))
        yield Arguments(tuple(placed))


def check(arguments: Arguments, case: Case, error_budget: float) -> float | MeasureFailed:
    """After a run: the largest error of any output relative to its scale, or what is wrong."""
    for p in arguments.placed:
        if not p.buffer.intact:
            message = f"wrote outside the buffer of {p.param.name}"
            return MeasureFailed(FailureKind.MEMORY_FAULT, message)
        if p.param.role in ("input", "constant") and not np.array_equal(p.buffer.data, p.initial):
            message = f"wrote to its {p.param.role} {p.param.name}"
            return MeasureFailed(FailureKind.MEMORY_FAULT, message)
    largest = 0.0
    for p in arguments.placed:
        if p.param.role == "output" and p.param.name in case.outputs:
            error = _check_output(p, case.outputs[p.param.name], error_budget)
            if isinstance(error, MeasureFailed):
                return error
            largest = max(largest, error)
    return largest


def _initial(param: Param, case: Case) -> Bytes:
    if param.role in ("output", "scratch"):
        if param.name in case.outputs:
            return case.outputs[param.name].initial
        return np.full(param.size_bytes, _SCRATCH_BYTE, np.uint8)
    if param.packing:
        return case.packed(param.packing)
    return np.ascontiguousarray(case.operands[param.name]).reshape(-1).view(np.uint8)


def _check_output(placed: Placed, expected: Expected, error_budget: float) -> float | MeasureFailed:
    name, data = placed.param.name, placed.buffer.data
    # A byte that is neither 0 nor 1 is a wrong boolean, which NumPy would hide.
    values: npt.NDArray[np.generic] = data.view(
        np.uint8 if expected.dtype is DType.BOOL else expected.dtype.numpy
    )
    finite, should = np.isfinite(values), np.isfinite(expected.values)
    if not finite[should].all():
        if missing := unwritten(expected, data):
            message = f"left {missing} of {int(expected.written.sum())} elements of {name} unwritten"
            return MeasureFailed(FailureKind.WRONG_OUTPUT, message)
        message = f"{int((~finite & should).sum())} elements of {name} are NaN or infinite"
        return MeasureFailed(FailureKind.NOT_FINITE, message)
    special = ~should
    if special.any() and not np.array_equal(values[special], expected.values[special], equal_nan=True):
        message = f"{name} is finite where the reference is NaN or infinite"
        return MeasureFailed(FailureKind.WRONG_OUTPUT, message)
    below = np.subtract(expected.values, values, dtype=np.float64, casting="unsafe")[should]
    above = np.subtract(values, expected.most, dtype=np.float64, casting="unsafe")[should]
    error = max(0.0, float(below.max(initial=0.0)), float(above.max(initial=0.0))) / expected.scale
    # A whole number is right or wrong.
    if error <= (error_budget if expected.dtype.is_float else 0.0):
        return error
    message = f"error {error:.3g} of {name} is beyond the budget of {error_budget:.3g}"
    return MeasureFailed(FailureKind.WRONG_OUTPUT, message)
