"""Rule: a map (or a movement) alone, vectorised along its contiguous axis and shared out over the others."""

from __future__ import annotations

from compiler.loop.ir import LoopKind
from compiler.schedule.schedule import Schedule
from compiler.schedule.steps import Bind, Fuse, Reorder, Split, Step
from compiler.space.space import Knob, SearchSpace, Value
from compiler.space.structure import TileAxes, tile_axes
from compiler.target import Target
from compiler.workload.ir import Workload

UNROLLS = (1, 2, 4, 8)
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
        """Knobs: unroll (vectors in the body), parallel (loops that are shared out together)."""
        stage = workload.stages[0]
        axes = tile_axes(workload, stage, target)
        outer = _outer(axes)
        knobs = (
            Knob("unroll", tuple(u for u in UNROLLS if u * axes.lanes <= max(axes.lanes, axes.vector.size))),
            Knob("parallel", tuple(range(1, len(outer) + 1))),
        )

        def build(values: dict[str, Value]) -> Schedule:
            return _schedule(stage.name, axes, int(values["unroll"]), int(values["parallel"]))  # type: ignore[arg-type]

        return SearchSpace(knobs, (0, _enough(axes, threads) - 1), lambda values: True, build)


def _outer(axes: TileAxes) -> list[str]:
    names = [a.name for a in axes.others]
    return names + ([axes.row.name] if axes.row is not None else []) + [f"{axes.vector.name}.o"]


def _enough(axes: TileAxes, threads: int) -> int:
    """Loops to fuse so that every thread gets several shares."""
    sizes = [a.size for a in axes.others] + ([axes.row.size] if axes.row is not None else [])
    sizes.append(-(-axes.vector.size // axes.lanes))
    total, count = 1, 0
    for size in sizes:
        total, count = total * size, count + 1
        if total >= PARALLEL_GRAINS_PER_THREAD * threads:
            break
    return count


def _schedule(stage: str, axes: TileAxes, unroll: int, parallel: int) -> Schedule:
    vector, outer = axes.vector.name, _outer(axes)
    steps: list[Step] = [
        Split(stage, vector, unroll * axes.lanes),
        Split(stage, f"{vector}.i", axes.lanes),
        Reorder(stage, (*outer, f"{vector}.i.o", f"{vector}.i.i")),
    ]
    name = outer[0]
    for following in outer[1:parallel]:
        steps.append(Fuse(stage, name, following))
        name = f"{name}*{following}"
    steps += [
        Bind(stage, name, LoopKind.PARALLEL),
        Bind(stage, f"{vector}.i.o", LoopKind.UNROLLED),
        Bind(stage, f"{vector}.i.i", LoopKind.VECTOR),
    ]
    return Schedule(tuple(steps))
