"""Padded: what a sum reads with a border of zeros is copied with that border, in a phase of its own.

    t[i] = sum(r) (x[i + r - 1] if 0 <= i + r - 1 < n else 0) * k[r]                    i < n, r < 3
    →  padded[e] = x[e - 1] if 0 <= e - 1 < n else 0                                    e < n + 2
       t[i]      = sum(r) padded[i + r] * k[r]

The tests are made once per element instead of once per use; what reads the copy reads it everywhere. Where what follows
goes in tiles, there is room for whole tiles in the copy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from compiler.errors import ScheduleError
from compiler.index import Index
from compiler.scalar import Apply, Bound, Const, Expr, Guard, Load, rewrite
from compiler.symbol import Axis, axis
from compiler.workload.ir import Operand, Stage, Workload

STAGE = "padded"
BUFFER = "padded_buffer"


@dataclass(frozen=True, slots=True)
class Padding:
    """A factor of a product that is zero outside of its bounds; each bound is the whole of a dimension of the load."""

    guard: Guard
    load: Load


def find_padding(workload: Workload) -> Padding | None:
    """What the first stage pads with zeros, where that is one factor of a sum of products; None where nothing is."""
    stage = workload.stages[0]
    match stage.body:
        case Apply("mul", (Guard(bounds, Load() as load, Const(value)) as guard, Load())):
            pass
        case Apply("mul", (Load(), Guard(bounds, Load() as load, Const(value)) as guard)):
            pass
        case _:
            return None
    indices = {index for index in load.indices if index.is_affine()}
    fixed = {a.name for a in (*stage.axes, *stage.reduce_axes) if a.extent.constant is not None}
    known = all(bound.index in indices and bound.index.names() <= fixed for bound in bounds)
    operands = {o.name for o in workload.operands if not o.constant}
    whole = len(indices) == len(load.indices) and load.buffer in operands
    return Padding(guard, load) if stage.reducer == "sum" and value == 0 and known and whole else None


def padded(workload: Workload, parameters: tuple[int, ...]) -> Workload:
    """The rewritten Workload; `parameters`: none, or (m,) for room for whole tiles of m along each tested axis."""
    found = find_padding(workload)
    if found is None or len(parameters) > 1 or any(m < 1 for m in parameters):
        msg = "padded needs a sum of products of which one factor is padded with zeros, and at most a tile's size"
        raise ScheduleError(msg)
    tile = parameters[0] if parameters else 1
    stage, source = workload.stages[0], workload.buffers[found.load.buffer]
    tested = {bound.index: bound for bound in found.guard.bounds}
    ranges = {a.name: -(-a.size // tile) * tile for a in stage.axes if a.extent.constant is not None}
    ranges |= {a.name: a.size for a in stage.reduce_axes if a.extent.constant is not None}
    axes: list[Axis] = []
    starts: list[int] = []
    for place, (index, extent) in enumerate(zip(found.load.indices, source.shape, strict=True)):
        low, high = index.bounds(ranges) if index in tested else (0, 0)
        starts.append(low)
        size = axis(f"e{place}", high - low + 1) if index in tested else Axis(f"e{place}", extent)
        axes.append(size)
    at = tuple(Index.of(a.name) for a in axes)
    from_source = {i: e + low for i, e, low in zip(found.load.indices, at, starts, strict=True)}
    bounds = tuple(Bound(from_source[b.index], b.low, b.high) for b in found.guard.bounds)
    element = Guard(bounds, Load(source.name, tuple(from_source.values())), found.guard.outside)
    copy = Stage(STAGE, tuple(axes), (), None, element, BUFFER, at, source.dtype)
    moved = tuple(i - low for i, low in zip(found.load.indices, starts, strict=True))

    def rule(e: Expr) -> Expr | None:
        return Load(BUFFER, moved) if e == found.guard else None

    anchor = stage.rewritten(lambda body: rewrite(body, rule))
    buffer = Operand(BUFFER, tuple(a.extent for a in axes), source.dtype)
    return replace(
        workload,
        temporaries=(buffer, *workload.temporaries),
        stages=(copy, anchor, *workload.stages[1:]),
    )
