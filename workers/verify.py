"""Verification: a candidate runs on guarded memory and must give the reference, and change nothing else.

What it may only read is in memory that can only be read; what it writes is compared when it has ended.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from compiler.codegen.kernel import Kernel, Param
from compiler.dtype import DType
from tuner.measure import FailureKind, MeasureFailed
from workers.case import Bytes, Case, Expected, Placed, unwritten
from workers.memory import GuardedBuffer

_SCRATCH_BYTE = 0x5A
_BLOCK = 1 << 15
"""Elements that are compared at a time: their differences stay in a cache."""


@dataclass(frozen=True, eq=False)
class Written:
    """A parameter that the kernel writes, in memory of its own, and the bytes that it starts with."""

    param: Param
    buffer: GuardedBuffer
    initial: Bytes | int

    def reset(self) -> None:
        """Write what it starts with."""
        self.buffer.data[:] = self.initial


@dataclass(frozen=True, eq=False)
class Arguments:
    """All parameters of a kernel in memory, in order; what is only read belongs to the Case."""

    places: tuple[Written | Placed, ...]

    @property
    def written(self) -> list[Written]:
        """Those that the kernel writes."""
        return [p for p in self.places if isinstance(p, Written)]

    @property
    def size_bytes(self) -> int:
        """Of what the kernel writes."""
        return sum(p.param.size_bytes for p in self.written)

    @property
    def pointers(self) -> list[int]:
        """Addresses in the order of the kernel's parameters, each parameter's last byte beside a guard."""
        return [(p.buffer if isinstance(p, Written) else p.tight).address for p in self.places]

    def align(self) -> list[int]:
        """Write again what a run has changed, to where the runtime places it, as all the rest; the new addresses."""
        for p in self.written:
            p.buffer.align()
            p.reset()
        return [(p.buffer if isinstance(p, Written) else p.aligned).address for p in self.places]


@contextmanager
def place(kernel: Kernel, case: Case) -> Iterator[Arguments]:
    """Memory for a kernel, filled; what it writes is freed at the end. Raises what `Case.placed` does."""
    with ExitStack() as stack:
        places: list[Written | Placed] = []
        for param in kernel.params:
            if param.role in ("input", "constant"):
                places.append(case.placed(param))
                continue
            initial = case.outputs[param.name].initial if param.name in case.outputs else _SCRATCH_BYTE
            if not isinstance(initial, int) and initial.size != param.size_bytes:
                msg = f"parameter {param.name} has {param.size_bytes} bytes, its data {initial.size}"
                raise ValueError(msg)
            buffer = GuardedBuffer(param.size_bytes, written=True)
            stack.callback(buffer.close)
            written = Written(param, buffer, initial)
            written.reset()
            places.append(written)
        yield Arguments(tuple(places))


def check(arguments: Arguments, case: Case, error_budget: float) -> float | MeasureFailed:
    """After a run: the largest error of any output relative to its scale, or what is wrong."""
    largest = 0.0
    for p in arguments.written:
        if not p.buffer.intact:
            message = f"wrote outside the buffer of {p.param.name}"
            return MeasureFailed(FailureKind.MEMORY_FAULT, message)
        if p.param.role == "output" and p.param.name in case.outputs:
            error = _check_output(p, case.outputs[p.param.name], error_budget)
            if isinstance(error, MeasureFailed):
                return error
            largest = max(largest, error)
    return largest


def _check_output(placed: Written, expected: Expected, error_budget: float) -> float | MeasureFailed:
    name, data = placed.param.name, placed.buffer.data
    # A byte that is neither 0 nor 1 is a wrong boolean, which NumPy would hide.
    values: npt.NDArray[np.generic] = data.view(
        np.uint8 if expected.dtype is DType.BOOL else expected.dtype.numpy
    )
    error = _largest_error(values, expected) if expected.finite else math.nan
    if math.isfinite(error):
        return _judged(name, error, expected, error_budget)
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
    return _judged(name, error, expected, error_budget)


def _largest_error(values: npt.NDArray[np.generic], expected: Expected) -> float:
    """Relative to the scale, where all right values are finite; NaN where a value is not."""
    largest = 0.0
    apart = np.empty(min(_BLOCK, len(values)))
    for start in range(0, len(values), _BLOCK):
        block = slice(start, start + _BLOCK)
        found, most, least = values[block], expected.most[block], expected.values[block]
        differences = apart[: len(found)]
        np.subtract(found, most, out=differences, dtype=np.float64, casting="unsafe")
        above = float(differences.max())
        if not expected.exact:
            np.subtract(found, least, out=differences, dtype=np.float64, casting="unsafe")
        below = -float(differences.min())
        if not (math.isfinite(above) and math.isfinite(below)):
            return math.nan
        largest = max(largest, above, below)
    return largest / expected.scale


def _judged(name: str, error: float, expected: Expected, error_budget: float) -> float | MeasureFailed:
    # A whole number is right or wrong.
    if error <= (error_budget if expected.dtype.is_float else 0.0):
        return error
    message = f"error {error:.3g} of {name} is beyond the budget of {error_budget:.3g}"
    return MeasureFailed(FailureKind.WRONG_OUTPUT, message)
