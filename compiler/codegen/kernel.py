"""Kernel: one candidate as machine code, the same bytes where it is measured and where it ships.

The object defines one function per phase and needs nothing but libm:

    void SYMBOL(T0 *p0, T1 *p1, ..., int64_t begin, int64_t end)        the first phase; the next are SYMBOL_1, ...

One pointer per Param, in order, then the share of the phase's parallel loop (0 .. its extent) that this caller
computes. Shares that cover the range without overlap may run at the same time on several threads; a phase starts when
the one before it has ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler.dtype import DType
from compiler.packing import Packing, Role, Transform


@dataclass(frozen=True, slots=True)
class Param:
    """One pointer of the kernel. `name` is the Workload's operand; `shape` is the memory behind the pointer."""

    name: str
    role: Role
    shape: tuple[int, ...]
    dtype: DType
    packing: Packing | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes behind the pointer."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.size_bytes


@dataclass(frozen=True, slots=True)
class Kernel:
    """Machine code of one Subgraph under one Schedule; `parallel_extents` has one extent per phase."""

    symbol: str
    object_code: bytes
    params: tuple[Param, ...]
    parallel_extents: tuple[int, ...]

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
        "parallel_extents": list(kernel.parallel_extents),
        "params": [
            {
                "name": p.name,
                "role": p.role,
                "shape": list(p.shape),
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
        parallel_extents=tuple(int(n) for n in data["parallel_extents"]),
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
        "dtype": None if packing.dtype is None else packing.dtype.value,
    }


def _packing_from_json(data: Any) -> Packing:
    transform = None
    if data["transform"] is not None:
        shape, matrix = data["transform"]
        transform = Transform(tuple(shape), tuple(tuple(float(v) for v in row) for row in matrix))
    coefficients = tuple(tuple(row) for row in data["coefficients"])
    dtype = None if data.get("dtype") is None else DType(data["dtype"])
    return Packing(str(data["source"]), tuple(data["shape"]), coefficients, transform, dtype)


def _param_from_json(data: Any) -> Param:
    packing = None if data["packing"] is None else _packing_from_json(data["packing"])
    return Param(str(data["name"]), data["role"], tuple(data["shape"]), DType(data["dtype"]), packing)
