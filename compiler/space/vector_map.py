"""Rule: a map (or a movement) alone, vectorised along its contiguous axis and shared out over the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import gcd, lcm, prod
from types import MappingProxyType

from compiler.index import FloorDiv, Mod
from compiler.loop.ir import LoopKind
from compiler.scalar import Guard, Load, walk
from compiler.schedule.schedule import Schedule
from compiler.schedule.steps import Bind, Reorder, Split, Step
from compiler.space.chains import has_long_chain
from compiler.space.share import share
from compiler.space.space import Knob, SearchSpace, Value, number
from compiler.space.structure import TileAxes, crossing_axis, looks_rows_up, tile_axes
from compiler.target import LINE_BYTES, Target
from compiler.workload.ir import Stage, Workload

UNROLLS = (1, 2, 4, 8)
WIDTHS = (1, 2, 4)
"""Vectors of the target that one long vector stands for: their operations take turns while each waits for the last."""
SHORTEST = 4
"""Lanes of a block that is transposed."""
LARGEST = 512
"""Elements of a block that is longer than its vectors."""
BLOCKS = (1, 2, 4, 8)
"""Blocks that are transposed one after another along the lines that they read."""
USUAL_BLOCKS = 4
USUAL_STORED = 2 * LINE_BYTES
"""Bytes that such blocks store in each row."""
PARALLEL_GRAINS_PER_THREAD = 4


class VectorMap:
    """The rule."""

    name = "vector_map"

    def applies(self, workload: Workload) -> bool:
        """One stage that reduces nothing."""
        return (
            len(workload.stages) == 1 and workload.stages[0].reducer is None and bool(workload.stages[0].axes)
        )

    def space(self, workload: Workload, target: Target, threads: int) -> SearchSpace:
        """Knobs: unroll (vectors), parallel (loops shared together), width, or columns and blocks (to transpose)."""
        stage = workload.stages[0]
        axes, across = _crossing(workload, stage, _axes(workload, stage, target))
        usual = _default(stage, axes, across, target, threads)
        knobs = [
            Knob("unroll", _unrolls(stage, axes)),
            Knob("parallel", tuple(range(1, len(_outer(axes, None)) + 1))),
        ]
        if across is None:
            knobs.append(Knob("width", _widths(axes)))
        else:
            columns = _columns(stage, axes, across, target)
            knobs += [Knob("columns", columns), Knob("blocks", _blocks(stage, across, columns[-1]))]
        default = [knob.choices.index(usual[knob.name]) for knob in knobs]

        def build(values: dict[str, Value]) -> Schedule:
            return Schedule(tuple(_steps(stage.name, axes, across, values)))

        return SearchSpace(tuple(knobs), tuple(default), _is_legal, build)


def map_steps(workload: Workload, stage: Stage, target: Target, threads: int) -> list[Step]:
    """The Steps of one map of a Workload, as the analytic default has them."""
    axes, across = _crossing(workload, stage, _axes(workload, stage, target))
    return _steps(stage.name, axes, across, _default(stage, axes, across, target, threads))


def _axes(workload: Workload, stage: Stage, target: Target) -> TileAxes:
    """Without lanes where each would go its own way: tests of numbers that were looked up are branches."""
    axes = tile_axes(workload, stage, target)
    bodies = [e for result in stage.results for e in walk(result.body)]
    branches = any(b.index.looked_up() for e in bodies if isinstance(e, Guard) for b in e.bounds)
    return replace(axes, lanes=1) if branches else axes


def _crossing(workload: Workload, stage: Stage, axes: TileAxes) -> tuple[TileAxes, str | None]:
    """The axis along which blocks that are transposed begin; with fewer lanes, of whole blocks, where it is short."""
    across, narrow = crossing_axis(workload, stage, axes), axes
    while across is None and narrow.lanes > SHORTEST:
        narrow = replace(narrow, lanes=narrow.lanes // 2)
        found = crossing_axis(workload, stage, narrow)
        if found is not None and _size(stage, found) % narrow.lanes == 0:
            return narrow, found
    return axes, across


def _size(stage: Stage, name: str) -> int:
    return next(a.size for a in stage.axes if a.name == name)


def _default(
    stage: Stage, axes: TileAxes, across: str | None, target: Target, threads: int
) -> dict[str, Value]:
    # What is looked up once serves all vectors of a copy: the longer it is, the fewer reads wait for an index.
    unrolls = _unrolls(stage, axes)
    unroll = unrolls[-1] if looks_rows_up(stage, axes.vector.name) else _period(stage, axes)
    if unroll not in unrolls:
        unroll = 1
    if across is None:
        width = _widths(axes)[-1] if has_long_chain(stage) else 1
        return {"unroll": unroll, "parallel": _enough(axes, threads), "width": width}
    columns = _columns(stage, axes, across, target)[-1]
    blocks = 1
    if 2 * prod(a.size for a in stage.axes) * stage.dtype.size_bytes > target.l2_bytes // 2:
        # A block reads one line of each of its rows: too short a run to be fetched ahead from a far cache.
        blocks = min(USUAL_BLOCKS, _blocks(stage, across, columns)[-1])
        stored = [u for u in unrolls if u * axes.lanes * stage.dtype.size_bytes <= USUAL_STORED]
        unroll = max([unroll, *stored[-1:]])
    parallel = _enough(axes, threads, {across: blocks * columns})
    return {"unroll": unroll, "parallel": parallel, "columns": columns, "blocks": blocks}


def _unrolls(stage: Stage, axes: TileAxes) -> tuple[int, ...]:
    choices = sorted({*UNROLLS, _period(stage, axes)})
    return tuple(u for u in choices if u * axes.lanes <= max(axes.lanes, axes.vector.size))


def _period(stage: Stage, axes: TileAxes) -> int:
    """Vectors after which quotients and remainders of the vector axis repeat: each of them has lanes of its own kind.

    Unrolled so often, what a lane reads is known when code is generated; else it takes a division of each lane.
    """
    count = 1
    if axes.lanes > 1:
        for divisor in _divisors(stage, axes.vector.name):
            found = lcm(count, divisor // gcd(divisor, axes.lanes))
            count = found if found <= UNROLLS[-1] else count
    return count


def _divisors(stage: Stage, name: str) -> Iterator[int]:
    """By which a stage divides what moves with an axis."""
    for e in (e for result in stage.results for e in walk(result.body)):
        read = e.indices if isinstance(e, Load) else ()
        tested = [bound.index for bound in e.bounds] if isinstance(e, Guard) else []
        for index in (*read, *tested):
            for atom, _ in index.terms:
                if not isinstance(atom, FloorDiv | Mod) or name not in atom.value.names():
                    continue
                if isinstance(atom.divisor, int):
                    yield atom.divisor


def _widths(axes: TileAxes) -> tuple[int, ...]:
    return tuple(w for w in WIDTHS if w * axes.lanes < 2 * max(axes.lanes, axes.vector.size))


def _columns(stage: Stage, axes: TileAxes, across: str, target: Target) -> tuple[int, ...]:
    """Of a block: as many as lanes, or those of a line where vectors are shorter; 1 where nothing is transposed.

    Half a line that is read, and the other half for a later block, is read twice.
    """
    of_line = LINE_BYTES // stage.dtype.size_bytes
    longer = target.vector_bytes < LINE_BYTES and of_line <= min(LARGEST // axes.lanes, _size(stage, across))
    return (1, axes.lanes, of_line) if longer else (1, axes.lanes)


def _is_legal(values: dict[str, Value]) -> bool:
    """What is not transposed has no blocks."""
    return number(values, "columns", 2) > 1 or number(values, "blocks", 1) == 1


def _blocks(stage: Stage, across: str, columns: int) -> tuple[int, ...]:
    return tuple(b for b in BLOCKS if b == 1 or b * columns <= _size(stage, across))


def _outer(axes: TileAxes, blocked: str | None) -> list[str]:
    names = [a.name for a in axes.others] + ([axes.row.name] if axes.row is not None else [])
    return [f"{n}.o" if n == blocked else n for n in names] + [f"{axes.vector.name}.o"]


def _enough(axes: TileAxes, threads: int, blocked: Mapping[str, int] = MappingProxyType({})) -> int:
    """Loops to fuse so that every thread gets several shares; `blocked` names those that run in longer blocks."""
    rows = [] if axes.row is None else [axes.row]
    sizes = [-(-a.size // blocked.get(a.name, 1)) for a in (*axes.others, *rows)]
    sizes.append(-(-axes.vector.size // axes.lanes))
    total, count = 1, 0
    for size in sizes:
        total, count = total * size, count + 1
        if total >= PARALLEL_GRAINS_PER_THREAD * threads:
            break
    return count


def _steps(stage: str, axes: TileAxes, across: str | None, values: dict[str, Value]) -> list[Step]:
    vector, columns = axes.vector.name, number(values, "columns")
    lanes = axes.lanes * number(values, "width")
    blocked = across if columns > 1 else None
    outer = _outer(axes, blocked)
    runs, inner, steps = [], [f"{vector}.i.o", f"{vector}.i.i"], list[Step]()
    if blocked is not None:
        runs = [f"{blocked}.i.o"]
        inner.insert(1, f"{blocked}.i.i")
        steps = [
            Split(stage, blocked, number(values, "blocks") * columns),
            Split(stage, f"{blocked}.i", columns),
        ]
    steps += [
        Split(stage, vector, number(values, "unroll") * lanes),
        Split(stage, f"{vector}.i", lanes),
        Reorder(stage, (*outer, *runs, *inner)),
    ]
    steps += share(stage, outer[: max(1, number(values, "parallel"))])
    steps += [Bind(stage, loop, LoopKind.UNROLLED) for loop in inner[:-1]]
    return steps if axes.lanes == 1 else [*steps, Bind(stage, inner[-1], LoopKind.VECTOR)]
