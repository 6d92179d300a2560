"""Layout: how a value of the graph lies in memory.

A Layout permutes the dimensions of the ONNX tensor and may put a halo of zeros around it, so that a padded convolution
reads its neighbours without a test and without a padded copy. It is data; index expressions do the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.index import Index


@dataclass(frozen=True, slots=True)
class Layout:
    """`order[i]` is the logical dimension stored at position i; `before`, `after`: border per logical dimension.

    The border is a halo of zeros, but along the dimensions `inside`: there the value is part of a larger one, and what
    surrounds it are other parts (compiler.graph.joins).
    """

    order: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    inside: frozenset[int] = frozenset()

    @staticmethod
    def plain(rank: int) -> Layout:
        """Row-major, no halo: the layout of every input and output of a model."""
        return Layout(tuple(range(rank)), (0,) * rank, (0,) * rank)

    @property
    def is_plain(self) -> bool:
        """Whether the bytes are those of the row-major ONNX tensor."""
        return self == Layout.plain(len(self.order))

    @property
    def has_halo(self) -> bool:
        """Whether any dimension has a border of zeros."""
        return any(self.zeros_before) or any(self.zeros_after)

    @property
    def zeros_before(self) -> tuple[int, ...]:
        """Zeros that are sure to be there in front of the value, per logical dimension."""
        return tuple(0 if d in self.inside else n for d, n in enumerate(self.before))

    @property
    def zeros_after(self) -> tuple[int, ...]:
        """Zeros that are sure to be there behind the value, per logical dimension."""
        return tuple(0 if d in self.inside else n for d, n in enumerate(self.after))

    def indices(self, logical: tuple[Index, ...]) -> tuple[Index, ...]:
        """Storage indices of the element with these logical indices."""
        return tuple(logical[d] + self.before[d] for d in self.order)

    def storage_shape(self, shape: tuple[Index, ...]) -> tuple[Index, ...]:
        """Extents in memory, halo included, of a tensor of this logical shape."""
        return tuple(shape[d] + self.before[d] + self.after[d] for d in self.order)

    def __str__(self) -> str:
        halo = f" halo {list(self.zeros_before)}+{list(self.zeros_after)}" if self.has_halo else ""
        part = "".join(f" part of dimension {d} from {self.before[d]}" for d in sorted(self.inside))
        return f"order {list(self.order)}{halo}{part}"
