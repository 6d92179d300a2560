"""Program: a model as Subgraphs in order, what partitioning a Graph gives and what the runtime lays out in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from compiler.graph.ir import TensorType
from compiler.graph.layout import Layout
from compiler.symbol import Symbol
from compiler.workload.ir import Operand, Workload

ALIGNMENT = 64
"""Bytes: every operand of a kernel that lies in the runtime's memory begins at a multiple."""
STAGGER = 1536
"""By so many bytes, modulo a page, a large value begins behind what it is computed from: at the same place, and a power
of two further on, the two have other sets of the first cache."""
STAGGERED_BYTES = 16 << 10
"""Least size of a large value."""


@dataclass(frozen=True, slots=True)
class Subgraph:
    """A fused region: its Workload, and the values of the model that are bound to it.

    Attributes:
        name: for people, such as "conv2d_3x3 64->64 @56x56".
        bindings: value of the model for each operand and output of the Workload, by the Workload's names.
        symbols: the Program's symbol for each of the Workload's.
        starts: of an operand that is a part of its value, the element with which it begins (compiler.workload.windows).
    """

    name: str
    workload: Workload
    bindings: Mapping[str, str]
    symbols: Mapping[str, str] = field(default_factory=dict)
    starts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Program:
    """All Subgraphs in the order in which they run.

    Attributes:
        inputs, outputs: the model's own, row-major, in the model's order.
        buffers: how each value lies in memory (storage extents, halo included), constants excluded.
        constants: by value name, row-major and read-only.
        layouts: of every value in `buffers`; a halo must be zero whenever the value is read, and no kernel stores it.
        wholes: the value of which each part is one: it lies in the memory of the whole, which nobody computes but its
            parts. A whole may be part of another.
        symbols: of the extents of inputs; a static model has none.
    """

    name: str
    inputs: Mapping[str, TensorType]
    outputs: Mapping[str, TensorType]
    buffers: Mapping[str, Operand]
    constants: dict[str, np.ndarray]
    subgraphs: tuple[Subgraph, ...]
    layouts: Mapping[str, Layout] = field(default_factory=dict)
    wholes: Mapping[str, str] = field(default_factory=dict)
    symbols: tuple[Symbol, ...] = ()

    def home(self, value: str) -> str:
        """The value in whose memory this one lies; most are their own."""
        while value in self.wholes:
            value = self.wholes[value]
        return value
