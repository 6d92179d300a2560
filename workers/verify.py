"""Verification: a candidate runs on guarded memory and must give the reference, and change nothing else.

What it may only read is in memory that can only be read; what it writes is compared when it has ended.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from compiler.codegen.kernel import Kernel, Param
from compiler.dtype import DType
from compiler.target import PAGE_BYTES
from compiler.workload.program import ALIGNMENT, STAGGERED_BYTES
from tuner.measure import FailureKind, MeasureFailed
from workers.case import Bytes, Case, Expected, Placed, unwritten
from workers.memory import GuardedBuffer

_SCRATCH_BYTE = 0x5A
_MOST_SHARED_BYTES = 256 << 20
"""Candidates that need a larger arena have one of their own: there may be no room for it."""
_BLOCK = 1 << 15
"""Elements that are compared at a time: their differences stay in a cache."""


@dataclass(frozen=True, eq=False)
class Written:
    """A parameter that a kernel writes, where it is, and the bytes that it starts with."""

    param: Param
    buffer: GuardedBuffer
    initial: Bytes | int


@dataclass(frozen=True, eq=False)
class Arguments:
    """The parameters of a kernel in memory.

    Attributes:
        pointers: addresses in the order of the parameters.
        written: those that are looked at afterwards: outputs, and scratch buffers that have guards of their own.
    """

    pointers: tuple[int, ...]
    written: tuple[Written, ...]

    def reset(self) -> None:
        """Write what all that is written starts with."""
        for written in self.written:
            written.buffer.data[:] = written.initial


class Shared:
    """What all candidates of a heat write while they are timed: the outputs, and one arena for their scratch buffers.

    A network's layers write where others have just read and written. Where each of twenty candidates writes memory of
    its own, each finds that in none of the caches, and those that write much at a time look worse than they are.
    """

    def __init__(self, case: Case, kernels: Sequence[Kernel]) -> None:
        """Map nothing yet; `kernels`: all that will be placed."""
        self._case = case
        self._outputs: dict[str, Placed] = {}
        needed = (_laid_out(_scratch(kernel))[1] for kernel in kernels)
        self._arena_bytes = max((size for size in needed if size <= _MOST_SHARED_BYTES), default=0)
        self._arenas: dict[int, GuardedBuffer] = {}

    @property
    def intact(self) -> bool:
        """Whether nothing was written beside the buffers in which candidates are timed."""
        outputs = (placed.aligned for placed in self._outputs.values())
        return all(buffer.intact for buffer in (*outputs, *self._arenas.values()))

    @contextmanager
    def guarded(self, kernel: Kernel) -> Iterator[Arguments]:
        """Each parameter's last byte is beside a guard; scratch buffers are its own, until the end of the context.

        Raises ValueError for a parameter of a wrong size, KeyError, MemoryError; see `Case.placed`.
        """
        with ExitStack() as stack:
            scratch = []
            for param in _scratch(kernel):
                buffer = GuardedBuffer(param.size_bytes, written=True)
                stack.callback(buffer.close)
                scratch.append(Written(param, buffer, _SCRATCH_BYTE))
            places = {written.param.name: written.buffer.address for written in scratch}
            arguments = self._arguments(kernel, places, aligned=False)
            yield replace(arguments, written=(*arguments.written, *scratch))

    def timed(self, kernel: Kernel) -> Arguments:
        """Parameters are where the runtime places them; raises what `guarded` does."""
        params = _scratch(kernel)
        offsets, size = _laid_out(params)
        start = self._arena(size).address if params else 0
        places = {param.name: start + offset for param, offset in zip(params, offsets, strict=True)}
        return self._arguments(kernel, places, aligned=True)

    def _arguments(self, kernel: Kernel, scratch: Mapping[str, int], *, aligned: bool) -> Arguments:
        """`scratch`: addresses by name."""
        pointers, written = [], []
        for param in kernel.params:
            if param.role == "output":
                buffer = self._output(param).at(aligned=aligned)
                written.append(Written(param, buffer, self._case.outputs[param.name].initial))
                pointers.append(buffer.address)
            elif param.role == "scratch":
                pointers.append(scratch[param.name])
            else:
                pointers.append(self._case.placed(param).at(aligned=aligned).address)
        return Arguments(tuple(pointers), tuple(written))

    def _arena(self, size_bytes: int) -> GuardedBuffer:
        size_bytes = max(size_bytes, self._arena_bytes)
        if size_bytes not in self._arenas:
            self._arenas[size_bytes] = GuardedBuffer(size_bytes, written=True)
            self._arenas[size_bytes].align()
        return self._arenas[size_bytes]

    def _output(self, param: Param) -> Placed:
        size = self._case.outputs[param.name].initial.size
        if size != param.size_bytes:
            msg = f"parameter {param.name} has {param.size_bytes} bytes, its data {size}"
            raise ValueError(msg)
        if param.name not in self._outputs:
            tight, aligned = (GuardedBuffer(size, written=True) for _ in range(2))
            aligned.align()
            self._outputs[param.name] = Placed(tight, aligned)
        return self._outputs[param.name]

    def close(self) -> None:
        """Unmap it."""
        for placed in self._outputs.values():
            placed.close()
        for arena in self._arenas.values():
            arena.close()


def _scratch(kernel: Kernel) -> list[Param]:
    return [param for param in kernel.params if param.role == "scratch"]


def _laid_out(params: Sequence[Param]) -> tuple[list[int], int]:
    """Offsets of buffers one after the other, large ones at the same place of a page, and the bytes of all."""
    offsets, end = [], 0
    for param in params:
        unit = PAGE_BYTES if param.size_bytes >= STAGGERED_BYTES else ALIGNMENT
        offsets.append(-(-end // unit) * unit)
        end = offsets[-1] + param.size_bytes
    return offsets, end


def check(arguments: Arguments, case: Case, error_budget: float) -> float | MeasureFailed:
    """After a run: the largest error of any output relative to its scale, or what is wrong."""
    largest = 0.0
    for written in arguments.written:
        param, buffer = written.param, written.buffer
        if not buffer.intact:
            return MeasureFailed(FailureKind.MEMORY_FAULT, f"wrote outside the buffer of {param.name}")
        if param.role == "output":
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
