"""Verification: a candidate runs on guarded memory and must give the reference, and change nothing else.

What it may only read is in memory that can only be read; what it writes is compared when it has ended.
"""

from __future__ import annotations

import math
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
class Written(Placed):
    """A parameter that kernels write, and the bytes that it starts with."""

    initial: Bytes | int

    def reset(self, *, aligned: bool) -> None:
        """Write what it starts with."""
        self.at(aligned=aligned).data[:] = self.initial


class Shared:
    """What all candidates of a heat write: one buffer for each output and for each temporary of a size.

    A network's layers write where others have just read and written. Where each of twenty candidates writes a buffer of
    its own, each finds that in none of the caches, and those that write much at a time look worse than they are.
    """

    def __init__(self, case: Case) -> None:
        self._case = case
        self._written: dict[tuple[str, int], Written] = {}

    @property
    def size_bytes(self) -> int:
        """Of what the kernels write."""
        return sum(size for _, size in self._written)

    @property
    def intact(self) -> bool:
        """Whether nothing was written beside the buffers in which candidates are timed."""
        return all(written.aligned.intact for written in self._written.values())

    def written(self, param: Param) -> Written:
        """Where kernels write the parameter; raises ValueError for an output of a wrong size, MemoryError."""
        key = (param.name, param.size_bytes)
        if key not in self._written:
            expected = self._case.outputs.get(param.name)
            if expected is not None and expected.initial.size != param.size_bytes:
                msg = f"parameter {param.name} has {param.size_bytes} bytes, its data {expected.initial.size}"
                raise ValueError(msg)
            tight = GuardedBuffer(param.size_bytes, written=True)
            aligned = tight if tight.is_aligned else GuardedBuffer(param.size_bytes, written=True)
            aligned.align()
            written = Written(tight, aligned, _SCRATCH_BYTE if expected is None else expected.initial)
            written.reset(aligned=True)
            self._written[key] = written
        return self._written[key]

    def close(self) -> None:
        """Unmap it."""
        for written in self._written.values():
            written.close()
        self._written.clear()


@dataclass(frozen=True, eq=False)
class Arguments:
    """All parameters of a kernel in memory, in order; what is only read belongs to the Case, the rest to the heat."""

    params: tuple[Param, ...]
    places: tuple[Written | Placed, ...]

    def pointers(self, *, aligned: bool) -> list[int]:
        """Addresses in the order of the parameters: as the runtime places them, or the last byte beside a guard."""
        return [place.at(aligned=aligned).address for place in self.places]

    def reset(self, *, aligned: bool) -> None:
        """Write what all that is written starts with."""
        for _, written in self.written:
            written.reset(aligned=aligned)

    @property
    def written(self) -> list[tuple[Param, Written]]:
        """Those that the kernel writes."""
        return [(p, at) for p, at in zip(self.params, self.places, strict=True) if isinstance(at, Written)]


def place(kernel: Kernel, case: Case, shared: Shared) -> Arguments:
    """Memory for a kernel. Raises what `Case.placed` and `Shared.written` do."""
    places = tuple(
        case.placed(param) if param.role in ("input", "constant") else shared.written(param)
        for param in kernel.params
    )
    return Arguments(tuple(kernel.params), places)


def check(arguments: Arguments, case: Case, error_budget: float, *, aligned: bool) -> float | MeasureFailed:
    """After a run there: the largest error of any output relative to its scale, or what is wrong."""
    largest = 0.0
    for param, written in arguments.written:
        buffer = written.at(aligned=aligned)
        if not buffer.intact:
            return MeasureFailed(FailureKind.MEMORY_FAULT, f"wrote outside the buffer of {param.name}")
        if param.role == "output" and param.name in case.outputs:
            error = _check_output(param.name, buffer.data, case.outputs[param.name], error_budget)
            if isinstance(error, MeasureFailed):
                return error
            largest = max(largest, error)
    return largest


def _check_output(name: str, data: Bytes, expected: Expected, error_budget: float) -> float | MeasureFailed:
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
