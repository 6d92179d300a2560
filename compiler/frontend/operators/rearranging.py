"""Blocks of an image as channels and back, and repetition."""

from __future__ import annotations

from collections.abc import Mapping

from compiler.frontend.call import Lowering, OperatorCall
from compiler.frontend.computes import at, output_axes
from compiler.graph.ir import Compute
from compiler.index import Index
from compiler.scalar import Load
from compiler.symbol import Axis

_LARGEST_BLOCK = 1 << 15


def _depth_to_space(call: OperatorCall) -> None:
    """Emit y[n, c, h*b + i, w*b + j] = x[n, channel(c, i, j), h, w]."""
    (batch, channels, height, width), block = _image(call)
    if channels % block**2:
        call.reject(f"splits {channels} channels into blocks of {block} x {block}")
    depth = channels // block**2
    axes = output_axes((batch, depth, height * block, width * block))
    n, c, y, x = at(axes)
    i, j = y % block, x % block
    channel = (i * block + j) * depth + c if _depth_first(call) else c * block**2 + i * block + j
    _emit(call, axes, (n, channel, y // block, x // block))


def _space_to_depth(call: OperatorCall) -> None:
    """Emit y[n, channel(c, i, j), h, w] = x[n, c, h*b + i, w*b + j]."""
    (batch, channels, height, width), block = _image(call)
    if height % block or width % block:
        call.reject(f"splits an image of {height} x {width} into blocks of {block} x {block}")
    axes = output_axes((batch, channels * block**2, height // block, width // block))
    n, channel, y, x = at(axes)
    if _depth_first(call):
        place, c = channel // channels, channel % channels
    else:
        place, c = channel % block**2, channel // block**2
    _emit(call, axes, (n, c, y * block + place // block, x * block + place % block))


def _image(call: OperatorCall) -> tuple[tuple[int, int, int, int], int]:
    shape, block = call.shape(0), call.integer("blocksize")
    if len(shape) != 4 or not 1 <= block <= _LARGEST_BLOCK:
        call.reject(f"has blocksize {block} for an input of shape {list(shape)}")
    return (shape[0], shape[1], shape[2], shape[3]), block


def _depth_first(call: OperatorCall) -> bool:
    """Whether the place in the block counts before the channel (DCR) or after it (CRD)."""
    mode = call.text("mode", "DCR")
    if mode not in ("DCR", "CRD"):
        call.reject(f"has the unknown mode {mode[:20]!r}")
    return mode == "DCR"


def _tile(call: OperatorCall) -> None:
    """Emit y[i] = x[i mod n] in each dimension."""
    shape, repeats = call.shape(0), call.constant_ints(1)
    if len(repeats) != len(shape) or any(r < 1 for r in repeats):
        call.reject(f"repeats shape {list(shape)} {repeats} times")
    axes = output_axes(n * r for n, r in zip(shape, repeats, strict=True))
    indices = (
        i if r == 1 else i % n if n > 1 else Index() for i, n, r in zip(at(axes), shape, repeats, strict=True)
    )
    _emit(call, axes, tuple(indices))


def _emit(call: OperatorCall, axes: tuple[Axis, ...], indices: tuple[Index, ...]) -> None:
    ranges = {a.name: a.size for a in axes}
    load = Load(call.value(0), tuple(i.simplify(ranges) for i in indices))
    call.emit(Compute(axes, (), None, load, call.dtype(call.value(0))))


LOWERINGS: Mapping[str, Lowering] = {
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
    "Tile": _tile,
}
