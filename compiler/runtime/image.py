"""Image: a compiled model as plain data, before it is loaded into a process or after it was saved.

image ::= Image(inputs, outputs, target, threads, kernels, program, team, calls, slots, constants, memory, lookups,
                symbols, lives, named)
slot  ::= Slot(kind, where)     kind: input | output | constant (number), arena | zeroed (byte offset),
                                      planned (number of a life), symbol (number)

A static model has its memory planned (arena, zeroed). One with symbols has the lives of its values instead, which are
placed for the sizes of each run. `reread` has the numbers of the inputs that kernels read in vectors again and again
(compiler/workload/reread.py): a run copies them first where they do not begin as vectors should. `named` holds a static
Image of the same model for each size that was named when it was compiled; its constants are the very arrays of the
others where they are equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from compiler.codegen.clear import Clear
from compiler.codegen.kernel import Kernel
from compiler.codegen.program import Call, phase_calls
from compiler.dtype import DType
from compiler.runtime.memory_plan import Life
from compiler.schedule.source import Lookup
from compiler.symbol import Size, Symbol, size_at
from compiler.target import Target
from compiler.workload.work import Work

_NO_SYMBOLS: Mapping[str, int] = MappingProxyType({})

SlotKind = Literal["input", "output", "constant", "arena", "zeroed", "planned", "symbol"]


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """An input or output: its name, shape and element type. An open dimension is an expression over symbols."""

    name: str
    shape: tuple[Size, ...]
    dtype: DType

    def sizes(self, values: Mapping[str, int] = _NO_SYMBOLS) -> tuple[int, ...]:
        """The shape under values of the symbols; raises InputError where one is missing."""
        if all(type(size) is int for size in self.shape):
            return self.shape  # type: ignore[return-value]
        return tuple(size_at(size, values) for size in self.shape)


@dataclass(frozen=True, slots=True)
class TaskLookup:
    """Where a Workload's Schedule came from."""

    workload: str
    name: str
    weight: int
    lookup: Lookup
    expected_loss: float | None = None


@dataclass(frozen=True, slots=True)
class Slot:
    """One entry of the program's table: a pointer, or the value of a symbol."""

    kind: SlotKind
    where: int


@dataclass(frozen=True, slots=True)
class KernelCall:
    """One call of the program: the kernel's name, its slots (pointers, then symbols), and for people the Subgraph's.

    Attributes:
        work: of its Workload, over the kernel's symbols.
        clears: borders of its outputs, which the program sets to zero at the same time.
    """

    kernel: str
    slots: tuple[int, ...]
    name: str
    work: Work
    clears: tuple[Clear, ...] = ()

    def phases(self, kernel: Kernel) -> tuple[Call, ...]:
        """The phases of the kernel."""
        return phase_calls(kernel, self.slots, self.work, self.clears)


@dataclass(frozen=True, eq=False)
class Image:
    """Everything that running a model needs. `constants` are packed and read-only."""

    name: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    target: Target
    threads: int
    kernels: dict[str, Kernel]
    program: bytes
    team: bytes
    calls: tuple[KernelCall, ...]
    slots: tuple[Slot, ...]
    constants: tuple[np.ndarray[Any, Any], ...]
    arena_bytes: int
    zeroed_bytes: int
    lookups: tuple[TaskLookup, ...]
    symbols: tuple[Symbol, ...] = ()
    lives: tuple[Life, ...] = ()
    reread: tuple[int, ...] = ()
    named: tuple[Image, ...] = ()

    @property
    def all_lookups(self) -> tuple[TaskLookup, ...]:
        """Of all sizes, and of those that were named."""
        return (*self.lookups, *(lookup for image in self.named for lookup in image.lookups))
