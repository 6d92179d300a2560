"""Kernel: one candidate as machine code, the same bytes where it is measured and where it ships.

The object defines one function per phase and needs nothing but libm:

    void SYMBOL(T0 *p0, T1 *p1, ..., int64_t n0, ..., int64_t begin, int64_t end)

for the first phase; the next are SYMBOL_1, ... One pointer per Param, in order, then the value of each symbol of the
Workload (a static one has none), then the share of the phase's parallel loop (0 .. its extent) that this caller
computes. Shares that cover the range without overlap may run at the same time on several threads; a phase starts when
the one before it has ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from compiler.dtype import DType
from compiler.index import Index
from compiler.index_json import index_from_json, index_json
from compiler.packing import Packing, Role, Transform
from compiler.symbol import Size, as_size, product, size_at

_NO_SYMBOLS: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Param:
    """One pointer of the kernel. `name` is the Workload's operand; `shape` is the memory behind the pointer."""

    name: str
    role: Role
    shape: tuple[Size, ...]
    dtype: DType
    packing: Packing | None = None

    def sizes(self, values: Mapping[str, int] = _NO_SYMBOLS) -> tuple[int, ...]:
        """The shape under values of the kernel's symbols; raises InputError where one is missing."""
        return tuple(size_at(size, values) for size in self.shape)

    @property
    def extent_bytes(self) -> Index:
        """Bytes behind the pointer, over the kernel's symbols."""
        return product(Index.of(size) for size in self.shape) * self.dtype.size_bytes

    @property
    def size_bytes(self) -> int:
        """Bytes behind the pointer; raises InputError where they depend on symbols."""
        return size_at(self.extent_bytes, {})


@dataclass(frozen=True, slots=True)
class Kernel:
    """Machine code of one Subgraph under one Schedule.

    Attributes:
        parallel_extents: of each phase, over the symbols.
        symbols: in the order in which the functions take their values.
    """

    symbol: str
    object_code: bytes
    params: tuple[Param, ...]
    parallel_extents: tuple[Size, ...]
    symbols: tuple[str, ...] = ()

    def phase_symbol(self, phase: int) -> str:
        """Name of a phase's function."""
        return phase_symbol(self.symbol, phase)


def phase_symbol(symbol: str, phase: int) -> str:
    """Name of a phase's function."""
    return symbol if phase == 0 else f"{symbol}_{phase}"


def kernel_json(kernel: Kernel) -> dict[str, Any]:
    """JSON form of everything but the object code."""
    return {
        "symbol": kernel.symbol,
        "parallel_extents": [index_json(Index.of(n)) for n in kernel.parallel_extents],
        "symbols": list(kernel.symbols),
        "params": [
            {
                "name": p.name,
                "role": p.role,
                "shape": [index_json(Index.of(n)) for n in p.shape],
                "dtype": p.dtype.value,
                "packing": None if p.packing is None else _packing_json(p.packing),
            }
            for p in kernel.params
        ],
    }


def kernel_from_json(data: Any, object_code: bytes) -> Kernel:
    """Inverse of `kernel_json`; raises ValueError, KeyError or TypeError on anything else."""
    return Kernel(
        symbol=str(data["symbol"]),
        object_code=object_code,
        params=tuple(_param_from_json(p) for p in data["params"]),
        parallel_extents=tuple(as_size(index_from_json(n)) for n in data["parallel_extents"]),
        symbols=tuple(str(name) for name in data.get("symbols", ())),
    )


def _packing_json(packing: Packing) -> dict[str, Any]:
    transform = packing.transform
    return {
        "source": packing.source,
        "shape": list(packing.shape),
        "coefficients": [list(row) for row in packing.coefficients],
        "transform": None
        if transform is None
        else [list(transform.shape), [list(r) for r in transform.matrix]],
        "transformed": None if transform is None or transform.dtype is None else transform.dtype.value,
        "dtype": None if packing.dtype is None else packing.dtype.value,
        "start": list(packing.start),
    }


def _packing_from_json(data: Any) -> Packing:
    transform = None
    if data["transform"] is not None:
        shape, matrix = data["transform"]
        rows = tuple(tuple(float(v) for v in row) for row in matrix)
        kind = data.get("transformed")
        transform = Transform(tuple(shape), rows, None if kind is None else DType(kind))
    coefficients = tuple(tuple(row) for row in data["coefficients"])
    dtype = None if data.get("dtype") is None else DType(data["dtype"])
    start = tuple(int(first) for first in data.get("start", ()))
    return Packing(str(data["source"]), tuple(data["shape"]), coefficients, transform, dtype, start)


def _param_from_json(data: Any) -> Param:
    packing = None if data["packing"] is None else _packing_from_json(data["packing"])
    shape = tuple(as_size(index_from_json(n)) for n in data["shape"])
    return Param(str(data["name"]), data["role"], shape, DType(data["dtype"]), packing)
