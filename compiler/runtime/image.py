"""Image: a compiled model as plain data, before it is loaded into a process or after it was saved.

image ::= Image(inputs, outputs, target, threads, kernels, program, team, calls, slots, constants, memory, lookups)
slot  ::= Slot(kind, where)     kind: input | output | constant (number), arena | zeroed (byte offset)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from compiler.codegen.kernel import Kernel
from compiler.dtype import DType
from compiler.schedule.source import Lookup
from compiler.target import Target

SlotKind = Literal["input", "output", "constant", "arena", "zeroed"]


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """An input or output: its name, shape and element type."""

    name: str
    shape: tuple[int, ...]
    dtype: DType


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
    """One pointer of the program's table."""

    kind: SlotKind
    where: int


@dataclass(frozen=True, slots=True)
class KernelCall:
    """One call of the program: the kernel, its slots, and for people the Subgraph's name."""

    symbol: str
    slots: tuple[int, ...]
    name: str


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
