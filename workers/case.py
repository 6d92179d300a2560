"""A Case: the operands and the reference that all candidates of a Workload are verified with.

Operands lie in guarded memory that can only be read, once for all candidates: those of a Task share most packings.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from compiler.codegen.kernel import Param
from compiler.dtype import DType
from compiler.grid import Array, index_arrays
from compiler.packing import Packing
from compiler.workload.index_operands import index_extents
from compiler.workload.ir import Operand, Workload
from compiler.workload.leeway import reference_bounds
from workers.memory import GuardedBuffer

Bytes = npt.NDArray[np.uint8]

_WIDE = 1 << 20
"""Largest magnitude of a random 32-bit or 64-bit integer."""

_KEPT_BYTES = 512 << 20
_KEPT_PLACED_BYTES = 256 << 20

_POISON_F32, _POISON_F64, _POISON_SHORT, _POISON_BYTE = 0x7FE5A5A5, 0x7FFCA5A5A5A5A5A5, 0x7FE5, 0x5A


@dataclass(frozen=True, eq=False)
class Expected:
    """What one output must become.

    Attributes:
        dtype: element type of the output.
        initial: its bytes before the run: poison (NaN for floats) where the Workload stores, 0 in the halo.
        values: float64 reference, flat, 0 in the halo; the least right one where compiler.workload.leeway has several.
        most: the largest right value; equal to `values` wherever nothing was rounded.
        written: flat, whether the Workload stores the element.
        scale: largest finite magnitude of the reference, 1 where that is 0.
        finite: whether all right values are.
        exact: whether each element has one right value.
    """

    dtype: DType
    initial: Bytes
    values: npt.NDArray[np.float64]
    most: npt.NDArray[np.float64]
    written: npt.NDArray[np.bool_]
    scale: float
    finite: bool
    exact: bool


@dataclass(frozen=True, eq=False)
class Placed:
    """A parameter in memory: beside a guard, and where the runtime would place it."""

    tight: GuardedBuffer
    aligned: GuardedBuffer

    def at(self, *, aligned: bool) -> GuardedBuffer:
        """One of the two."""
        return self.aligned if aligned else self.tight

    @property
    def size_bytes(self) -> int:
        """Of the data, in both places together."""
        return self.tight.data.size * (1 if self.tight is self.aligned else 2)

    def close(self) -> None:
        """Unmap it."""
        self.tight.close()
        self.aligned.close()


@dataclass(frozen=True, eq=False)
class Case:
    """Operands by name in storage shape, and what each output must become; `close` frees what `placed` keeps."""

    operands: Mapping[str, Array]
    outputs: Mapping[str, Expected]
    _placed: dict[str | Packing, Placed] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        """Bytes of the operands and references, without what `placed` keeps."""
        operands = sum(array.nbytes for array in self.operands.values())
        return operands + sum(2 * e.values.nbytes + e.initial.nbytes for e in self.outputs.values())

    def placed(self, param: Param) -> Placed:
        """The operand of a parameter that is only read, packed as it asks for; it stays until `trim` or `close`.

        Raises:
            KeyError: the kernel has a parameter that the Workload has not.
            ValueError: the parameter's size is not that of its data.
            MemoryError: there is no room.
        """
        key = param.packing or param.name
        if key not in self._placed:
            source = self.operands[param.packing.source if param.packing else param.name]
            array = np.ascontiguousarray(param.packing.apply(source) if param.packing else source)
            self._placed[key] = _place(array.reshape(-1).view(np.uint8))
        placed = self._placed[key]
        if placed.tight.data.size != param.size_bytes:
            msg = f"parameter {param.name} has {param.size_bytes} bytes, its data {placed.tight.data.size}"
            raise ValueError(msg)
        return placed

    def trim(self) -> None:
        """Free what `placed` keeps where that is much; no kernel may be placed."""
        if sum(placed.size_bytes for placed in self._placed.values()) > _KEPT_PLACED_BYTES:
            self.close()

    def close(self) -> None:
        """Free all that `placed` keeps; it is made again where it is needed."""
        for placed in self._placed.values():
            placed.close()
        self._placed.clear()


class Cases:
    """The Cases of the Workloads met last, as far as some memory goes; the newest is always kept."""

    def __init__(self) -> None:
        self._cases: OrderedDict[tuple[str, int], Case] = OrderedDict()

    def case(self, workload: Workload, seed: int) -> Case:
        """`make_case`, or what is left of an earlier call."""
        key = (workload.digest, seed)
        if key not in self._cases:
            self._cases[key] = make_case(workload, seed)
        self._cases.move_to_end(key)
        for older in list(self._cases.values())[:-1]:
            older.close()
        while len(self._cases) > 1 and sum(c.size_bytes for c in self._cases.values()) > _KEPT_BYTES:
            self._cases.popitem(last=False)
        return self._cases[key]


def make_case(workload: Workload, seed: int) -> Case:
    """Operands from a seed, and the reference for them."""
    operands = make_operands(workload, seed)
    bounds = reference_bounds(workload, operands)
    outputs = {o.name: _expected(workload, o, *bounds[o.name]) for o in workload.outputs}
    return Case(operands, outputs)


def make_operands(workload: Workload, seed: int) -> dict[str, Array]:
    """The same for an equal Workload and seed on every machine; floats are standard normal, indices in range."""
    rng = np.random.default_rng([seed, int(workload.digest[:16], 16)])
    extents = index_extents(workload)
    return {operand.name: _random(rng, operand, extents.get(operand.name)) for operand in workload.operands}


def _place(data: Bytes) -> Placed:
    tight = _filled(data, aligned=False)
    return Placed(tight, tight if tight.is_aligned else _filled(data, aligned=True))


def _filled(data: Bytes, *, aligned: bool) -> GuardedBuffer:
    buffer = GuardedBuffer(data.size)
    if aligned:
        buffer.align()
    buffer.data[:] = data
    buffer.lock()
    return buffer


def unwritten(expected: Expected, data: Bytes) -> int:
    """How many elements still hold the poison, bit by bit (0 for integers, where poison is a value like any)."""
    if not expected.dtype.is_float:
        return 0
    bits = np.dtype(f"u{expected.dtype.size_bytes}")
    return int(((data.view(bits) == expected.initial.view(bits)) & expected.written).sum())


def _random(rng: np.random.Generator, operand: Operand, extent: int | None) -> Array:
    """Standard normal floats; small types over their full range, wide ones where sums and products do not overflow.

    Where elements are looked up, valid indices only: those from the end (negative) as well as those from the front.
    """
    dtype = operand.dtype
    if dtype.is_float:
        return rng.standard_normal(operand.sizes, np.float32).astype(dtype.numpy)
    low, high = dtype.limits
    if dtype.size_bytes > DType.I16.size_bytes:
        low, high = -_WIDE, _WIDE
    if operand.bound is not None:
        low, high = max(low, -operand.bound), min(high, operand.bound)
    if extent is not None:
        low, high = max(low, -extent), min(high, extent - 1)
    return rng.integers(low, high, operand.sizes, endpoint=True).astype(dtype.numpy)


def _expected(workload: Workload, output: Operand, least: Array, most: Array) -> Expected:
    values, top = (np.ascontiguousarray(a, np.float64).reshape(-1) for a in (least, most))
    written = _written(workload, output)
    magnitudes = np.abs(values[np.isfinite(values)])
    scale = float(magnitudes.max(initial=0.0)) or 1.0
    finite = len(magnitudes) == len(values) and bool(np.isfinite(top).all())
    exact = bool(np.array_equal(values, top))
    return Expected(output.dtype, _poison(output.dtype, written), values, top, written, scale, finite, exact)


def _written(workload: Workload, output: Operand) -> npt.NDArray[np.bool_]:
    mask = np.zeros(output.sizes, np.bool_)
    for single in (single for stage in workload.stages for single in stage.apart):
        if single.target == output.name:
            mask[tuple(index_arrays(single.target_indices, {a.name: a.size for a in single.axes}))] = True
    return mask.reshape(-1)


def _poison(dtype: DType, written: npt.NDArray[np.bool_]) -> Bytes:
    initial: Array
    match dtype:
        case DType.F32:
            initial = np.where(written, np.uint32(_POISON_F32), np.uint32(0))
        case DType.F64:
            initial = np.where(written, np.uint64(_POISON_F64), np.uint64(0))
        case DType.F16 | DType.BF16:
            initial = np.where(written, np.uint16(_POISON_SHORT), np.uint16(0))
        case _:
            initial = np.repeat(np.where(written, np.uint8(_POISON_BYTE), np.uint8(0)), dtype.size_bytes)
    return initial.view(np.uint8)
