"""Kernel: one candidate as machine code, the same bytes where it is measured and where it ships.

Each phase is an object of its own, which defines one function and needs nothing but libm:

    void SYMBOL(T0 *p0, T1 *p1, ..., int64_t n0, ..., int64_t begin, int64_t end)

One pointer per Param of the kernel, in order, then the value of each symbol of the Workload (a static one has none),
then the share of the phase's parallel loop (0 .. its extent) that this caller computes. Shares that cover the range
without overlap may run at the same time on several threads; a phase starts when the one before it has ended.

SYMBOL follows from the phase's code, so that kernels which differ in one phase have the objects of the others in
common: they are compiled, sent, stored and loaded once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from compiler.dtype import DType
from compiler.index import Index
from compiler.index_json import index_from_json, index_json
from compiler.packing import Packing, Parts, Role, Shortened, Transform
from compiler.symbol import Size, as_size, product, size_at

_NO_SYMBOLS: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Param:
    """One pointer of the kernel. `name` is the Workload's operand; `shape` is the memory behind the pointer.

    `replaces`: of an output, the inputs whose memory it may take (compiler/loop/in_place.py).
    """

    name: str
    role: Role
    shape: tuple[Size, ...]
    dtype: DType
    packing: Packing | None = None
    replaces: tuple[str, ...] = ()

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
class Phase:
    """One function of a kernel; `parallel_extent`: of the loop that is shared out, over the kernel's symbols."""

    symbol: str
    object_code: bytes
    parallel_extent: Size


@dataclass(frozen=True, slots=True)
class Kernel:
    """Machine code of one Subgraph under one Schedule.

    Attributes:
        name: of the Workload and the Schedule, by their digests.
        symbols: in the order in which the functions take their values.
    """

    name: str
    phases: tuple[Phase, ...]
    params: tuple[Param, ...]
    symbols: tuple[str, ...] = ()


def phase_objects(kernels: Iterable[Kernel]) -> dict[str, bytes]:
    """The object of every phase by its symbol, in order of first use."""
    return {phase.symbol: phase.object_code for kernel in kernels for phase in kernel.phases}


def kernels_json(kernels: Sequence[Kernel]) -> tuple[list[dict[str, Any]], tuple[bytes, ...]]:
    """JSON form of everything but the object code, and the objects; the same one once."""
    return [_kernel_json(kernel) for kernel in kernels], tuple(phase_objects(kernels).values())


def kernels_from_json(data: Sequence[Any], objects: Sequence[bytes]) -> list[Kernel]:
    """Inverse of `kernels_json`; raises ValueError, KeyError or TypeError on anything else."""
    found = dict(zip(_symbols(data), objects, strict=True))
    return [_kernel_from_json(kernel, found) for kernel in data]


def object_count(data: Sequence[Any]) -> int:
    """How many objects belong to this JSON of kernels; raises as `kernels_from_json`."""
    return len(_symbols(data))


def _symbols(data: Sequence[Any]) -> list[str]:
    return list(dict.fromkeys(str(symbol) for kernel in data for symbol, _ in kernel["phases"]))


def _kernel_json(kernel: Kernel) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "phases": [[p.symbol, index_json(Index.of(p.parallel_extent))] for p in kernel.phases],
        "symbols": list(kernel.symbols),
        "params": [
            {
                "name": p.name,
                "role": p.role,
                "shape": [index_json(Index.of(n)) for n in p.shape],
                "dtype": p.dtype.value,
                "packing": None if p.packing is None else _packing_json(p.packing),
                "replaces": list(p.replaces),
            }
            for p in kernel.params
        ],
    }


def _kernel_from_json(data: Any, objects: Mapping[str, bytes]) -> Kernel:
    return Kernel(
        name=str(data["name"]),
        phases=tuple(
            Phase(str(symbol), objects[str(symbol)], as_size(index_from_json(n)))
            for symbol, n in data["phases"]
        ),
        params=tuple(_param_from_json(p) for p in data["params"]),
        symbols=tuple(str(name) for name in data.get("symbols", ())),
    )


def _packing_json(packing: Packing) -> dict[str, Any]:
    whole = packing.transform
    transform = whole if isinstance(whole, Transform) else None
    return {
        "source": packing.source,
        "shape": list(packing.shape),
        "coefficients": [list(row) for row in packing.coefficients],
        "parts": [whole.count, whole.dtype.value, list(whole.order), whole.joined]
        if isinstance(whole, Parts)
        else None,
        "shortened": isinstance(whole, Shortened),
        "transform": None
        if transform is None
        else [list(transform.shape), [list(r) for r in transform.matrix]],
        "transformed": None if transform is None or transform.dtype is None else transform.dtype.value,
        "order": [] if transform is None else list(transform.order),
        "combined": 1 if transform is None else transform.combined,
        "dtype": None if packing.dtype is None else packing.dtype.value,
        "start": list(packing.start),
    }


def _packing_from_json(data: Any) -> Packing:
    transform: Transform | Parts | Shortened | None = None
    if data.get("parts") is not None:
        count, kind, *view = data["parts"]
        order, joined = view or ([], 1)
        transform = Parts(int(count), DType(kind), tuple(int(d) for d in order), int(joined))
    elif data.get("shortened"):
        transform = Shortened()
    elif data["transform"] is not None:
        shape, matrix = data["transform"]
        rows = tuple(tuple(float(v) for v in row) for row in matrix)
        kind = data.get("transformed")
        order, combined = tuple(int(d) for d in data.get("order", ())), int(data.get("combined", 1))
        transform = Transform(tuple(shape), rows, None if kind is None else DType(kind), order, combined)
    coefficients = tuple(tuple(row) for row in data["coefficients"])
    dtype = None if data.get("dtype") is None else DType(data["dtype"])
    start = tuple(int(first) for first in data.get("start", ()))
    return Packing(str(data["source"]), tuple(data["shape"]), coefficients, transform, dtype, start)


def _param_from_json(data: Any) -> Param:
    packing = None if data["packing"] is None else _packing_from_json(data["packing"])
    shape = tuple(as_size(index_from_json(n)) for n in data["shape"])
    replaces = tuple(str(name) for name in data.get("replaces", ()))
    return Param(str(data["name"]), data["role"], shape, DType(data["dtype"]), packing, replaces)
