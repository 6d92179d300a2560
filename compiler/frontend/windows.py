"""Sliding windows of convolutions and pooling: attributes, output sizes and the loads through a window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from compiler.frontend.call import OperatorCall
from compiler.index import Index
from compiler.scalar import Bound, Const, Expr, Guard, Load

_MOST = 1 << 31
"""Strides, paddings and the like above this are nonsense."""


@dataclass(frozen=True, slots=True)
class Window:
    """A window that slides along one dimension of `size` elements, `outputs` times."""

    size: int
    kernel: int
    stride: int
    dilation: int
    before: int
    after: int
    outputs: int

    def index(self, output: Index, tap: Index) -> Index:
        """Position in the input; outside of it is padding."""
        return output * self.stride + tap * self.dilation - self.before

    @property
    def taps(self) -> int:
        """Taps of which any position is inside the input or in front of it: a window may be larger than all of it."""
        return min(self.kernel, (self.size - 1 + self.before) // self.dilation + 1)

    @property
    def seen(self) -> range:
        """Taps that are inside of the input for any output; the first one where none is."""
        last = (self.outputs - 1) * self.stride - self.before
        first = max(0, -(last // self.dilation))
        return range(first, self.taps) if first < self.taps else range(1)

    def narrowed(self, taps: range) -> Window:
        """The window of some neighbouring taps alone, which may begin behind the input's first element."""
        front, behind = taps.start * self.dilation, (self.kernel - taps.stop) * self.dilation
        return replace(self, kernel=len(taps), before=self.before - front, after=self.after - behind)

    @property
    def pads(self) -> bool:
        """Whether any position of the taps is outside of the input."""
        last = (self.outputs - 1) * self.stride + (self.taps - 1) * self.dilation - self.before
        return self.before > 0 or last >= self.size

    def taps_inside(self, *, padding_counts: bool) -> npt.NDArray[np.int64]:
        """For each output the number of taps in the input (or in the input and its padding)."""
        low = -self.before if padding_counts else 0
        high = self.size + (self.after if padding_counts else 0)
        starts = np.arange(self.outputs, dtype=np.int64) * self.stride - self.before
        first = np.maximum(-((starts - low) // self.dilation), 0)
        behind = np.minimum(-((starts - high) // self.dilation), self.kernel)
        counts: npt.NDArray[np.int64] = np.maximum(behind - first, 0)
        return counts


def windows(call: OperatorCall, sizes: Sequence[int], kernel: Sequence[int]) -> tuple[Window, ...]:
    """One Window per spatial dimension, from the attributes that Conv and pooling share; raises ModelError."""
    rank = len(sizes)
    strides = numbers(call, "strides", rank, 1)
    dilations = numbers(call, "dilations", rank, 1)
    _check_range(call, "kernel_shape", kernel, 1)
    mode = call.text("auto_pad", "NOTSET")
    if mode not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        call.reject(f"has the unknown auto_pad {mode[:20]!r}")
    pads = numbers(call, "pads", 2 * rank, 0) if mode == "NOTSET" else [0] * (2 * rank)
    return tuple(
        _window(call, mode, (sizes[d], kernel[d], strides[d], dilations[d], pads[d], pads[rank + d]))
        for d in range(rank)
    )


def numbers(call: OperatorCall, name: str, length: int, least: int) -> list[int]:
    """A list attribute, `least` in each place where it is missing; raises ModelError on other lengths and values."""
    default = [least] * length
    given = call.ints(name) or default
    if len(given) != length:
        call.reject(f"has {len(given)} {name} instead of {length}")
    _check_range(call, name, given, least)
    return given


def _check_range(call: OperatorCall, name: str, numbers: Sequence[int], least: int) -> None:
    if any(not least <= n < _MOST for n in numbers):
        call.reject(f"has {name} {list(numbers)}")


def _window(call: OperatorCall, mode: str, extents: tuple[int, int, int, int, int, int]) -> Window:
    size, kernel, stride, dilation, before, after = extents
    reach = (kernel - 1) * dilation + 1
    if mode.startswith("SAME"):
        outputs = -(-size // stride)
        total = max((outputs - 1) * stride + reach - size, 0)
        small, large = total // 2, total - total // 2
        before, after = (small, large) if mode == "SAME_UPPER" else (large, small)
        return Window(size, kernel, stride, dilation, before, after, outputs)
    room = size + before + after - reach
    outputs = room // stride + 1
    if call.integer("ceil_mode") and room % stride and outputs * stride < size + before:
        # A window that would start in the padding behind the input is left out.
        outputs += 1
    if outputs < 1:
        call.reject(f"has a window of {reach} over {size + before + after} elements")
    return Window(size, kernel, stride, dilation, before, after, outputs)


def windowed_load(
    value: str,
    leading: tuple[Index, ...],
    slides: Sequence[tuple[Window, Index, Index]],
    outside: Const,
) -> Expr:
    """The element under a tap, `outside` (of the value's type) in the padding.

    `slides`: window, output index and tap per dimension.
    """
    spatial = [window.index(output, tap) for window, output, tap in slides]
    load = Load(value, (*leading, *spatial))
    bounds = tuple(
        Bound(index, 0, window.size)
        for index, (window, _, _) in zip(spatial, slides, strict=True)
        if window.pads
    )
    return Guard(bounds, load, outside) if bounds else load
