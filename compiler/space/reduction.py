"""Rule: a reduction and the map that follows it, by any algorithm that applies, in register tiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from compiler.errors import ScheduleError
from compiler.scalar import loads
from compiler.schedule.padded import find_padding
from compiler.schedule.panels import find_panels
from compiler.schedule.schedule import Schedule
from compiler.schedule.source import TASK_ERROR_BUDGET
from compiler.schedule.steps import Step
from compiler.space.both_part_phases import BothPartPhases, both_part_phases
from compiler.space.crowding import crowding
from compiler.space.default_tile import default_values, output_cycles, reads_apart
from compiler.space.dot_phases import DotPhases, instructions
from compiler.space.down_tile import down_axis, shares_beside
from compiler.space.estimate import algorithm_cycles
from compiler.space.half_vectors import filled
from compiler.space.inner_tile import InnerTile, inner_axis
from compiler.space.matrix_tile import MatrixTile
from compiler.space.panel_tile import PanelPhases, PanelTile
from compiler.space.part_phases import PartPhases, part_phases
from compiler.space.phases import ApartPhases, Phases, padded_phases
from compiler.space.register_tile import RegisterTile
from compiler.space.separated_phases import SeparatedPhases, separated_phases
from compiler.space.short_constant_phases import ShortConstantPhases, short_constant_phases
from compiler.space.space import Assignment, Knob, SearchSpace, Value, number
from compiler.space.strassen_phases import StrassenPhases, can_cut
from compiler.space.structure import gathers, step_along
from compiler.space.winograd_blocks import WinogradBlocks, winograd_blocks
from compiler.space.winograd_phases import WinogradPhases, winograd_tiles
from compiler.target import LINE_BYTES, Target
from compiler.workload.ir import Workload

DIRECT, PANELS, APART, PADDED = "direct", "panels", "apart", "padded"
SEPARATED, INNER, STRASSEN, PARTS, SHORT = "separated", "inner", "strassen", "parts", "short constants"
DOWN = "down"
"""The direct form, in tiles of windows that are below each other."""
ALGORITHM, INSTRUCTION = "algorithm", "instruction"
"""Knobs that choose among the plans."""
EDGES = 0.87
"""Share of the cycles of tiles without edges below which tiles with edges are worth the time to build them."""
WORTH = 0.75
"""Instructions, as a share of the direct form's, below which what surrounds them pays without measuring."""
WORTH_AN_ERROR = 1000
"""Cycles that an algorithm of a larger error saves at least."""
NEARLY = 1.03
"""Of tiles whose cycles are within this factor of the fewest the smallest, whose errors are, is taken."""
FILLED = 0.85
"""Share of the lanes along the columns above which lanes along the sum have little to gain."""
TRIED = 1.25
"""Cycles, as a share of the direct form's, above which lanes along the sum are no choice of the search."""
PANEL_ROWS, CROWDED_ROWS, MANY_ROWS = 8, 64, 96
"""Rows that make a copy worth its while: each element of it is read once per row. The second where it only keeps lines
from driving each other out, beside another factor that moves too, the third where it only brings lines nearer."""
CROWDED = 4
"""Times as many lines as their sets hold, from where on the second cache does not hide that they go."""

_LESS_EXACT = WinogradPhases | StrassenPhases | PartPhases | BothPartPhases | ShortConstantPhases


@dataclass(frozen=True)
class _Plan:
    """One algorithm: the tile that its knobs shape, and what surrounds it."""

    tile: RegisterTile
    phases: Phases | None

    def steps(self, values: dict[str, Value]) -> list[Step]:
        if self.phases is None:
            return self.tile.steps(values)
        return self.phases.steps(self.tile, values)

    def usual(self) -> dict[str, Value]:
        """Values that are good without measuring."""
        if isinstance(self.phases, SeparatedPhases):
            return self.phases.usual(self.tile)
        return (
            self.tile.usual() if isinstance(self.tile, MatrixTile | PanelTile) else default_values(self.tile)
        )


class Reduction:
    """The rule."""

    name = "reduction"

    def applies(self, workload: Workload) -> bool:
        """A reduction into a temporary, and one map over the same axes that reads it."""
        if len(workload.stages) != 2:
            return False
        anchor, epilogue = workload.stages
        return anchor.reducer is not None and epilogue.reducer is None and bool(epilogue.axes)

    def space(self, workload: Workload, target: Target, threads: int) -> SearchSpace:
        """Knobs: algorithm or instruction, and those of the register tile (of the products, where there are phases)."""
        target = filled(workload, target)
        kind, plans = _plans(workload, target, threads)
        knobs = _union(kind, plans)
        choices = {
            name: {k.name: frozenset(k.choices) for k in plan.tile.knobs()} for name, plan in plans.items()
        }

        def legal(values: dict[str, Value]) -> bool:
            name = str(values.get(kind, DIRECT))
            own = choices[name].items()
            return all(values[n] in known for n, known in own) and plans[name].tile.legal(values)

        def build(values: dict[str, Value]) -> Schedule:
            if not legal(values):
                msg = f"the knobs {values} do not fit the target; choose legal ones"
                raise ScheduleError(msg)
            return Schedule(tuple(plans[str(values.get(kind, DIRECT))].steps(values)))

        # Of its own choices the nearest: another plan may have more of them.
        usual = {
            name: {knob.name: _nearest(knob, wanted) for knob in plan.tile.knobs()}
            for name, plan in plans.items()
            for wanted in (plan.usual(),)
        }
        assignments = {name: _assignment(knobs, {kind: name, **usual[name]}) for name in plans}
        careful = _preferred(kind, plans, usual)
        chosen, error = careful, 0.0
        space = SearchSpace(knobs, assignments[careful], legal, build)
        if (
            careful in (DIRECT, PANELS, INNER)
            and (fewer := _fewer_multiplications(workload, plans, careful, target, threads)) is not None
        ):
            chosen, error = fewer
        others = [assignments[name] for name in reversed(plans) if name != chosen]
        return replace(
            space,
            default=assignments[chosen],
            starts=tuple(a for a in others if space.is_legal(a)),
            error=error,
            careful=None if chosen == careful else assignments[careful],
        )


def _preferred(kind: str, plans: dict[str, _Plan], usual: dict[str, dict[str, Value]]) -> str:
    """The algorithm that is best without measuring, as far as structure tells.

    Panels where lanes would otherwise be gathered, and enough rows read what is copied; also where lines of a tile
    drive each other out of the first cache, and for many rows where lines are far apart. Separated where windows share
    enough. Inner where lanes along the sum are better filled. Apart where a tile that holds every block has fewer rows
    than there are.
    """
    if kind == INSTRUCTION:
        return next(iter(plans))
    tile = plans[DIRECT].tile
    rows = tile.axes.row.size if tile.axes.row is not None else 1
    if PANELS in plans and rows >= PANEL_ROWS and gathers(tile.workload, tile.anchor, tile.axes.vector):
        return PANELS
    if PANELS in plans and rows >= MANY_ROWS and _reads_lines_apart(tile):
        return PANELS
    if PANELS in plans and rows >= PANEL_ROWS and _is_crowded(tile, rows, number(usual[DIRECT], "vectors")):
        return PANELS
    shared = plans[SEPARATED].phases if SEPARATED in plans else None
    if isinstance(shared, SeparatedPhases):
        fewest, *_ = shared.best_tile(plans[SEPARATED].tile)
        fewer = fewest < WORTH * (prod(a.size for a in tile.anchor.reduce_axes) - 1)
        if fewer or (DOWN in plans and reads_apart(tile)):
            return SEPARATED
    if DOWN in plans and (reads_apart(tile) or shares_beside(plans[DOWN].tile)):
        return DOWN
    inner = plans[INNER].tile if INNER in plans else None
    if isinstance(inner, InnerTile) and _inner_cycles(inner) < output_cycles(tile):
        return INNER
    return APART if APART in plans and rows > number(usual[DIRECT], "rows") else DIRECT


def _fewer_multiplications(
    workload: Workload, plans: dict[str, _Plan], careful: str, target: Target, threads: int
) -> tuple[str, float] | None:
    """The plan with fewer multiplications that is clearly cheaper than the `careful` one, and its error; else None.

    Sizes that are symbols are at their nominal values here.
    """
    fewer = {
        name: phases
        for name, plan in plans.items()
        if isinstance(phases := plan.phases, _LESS_EXACT) and phases.error <= TASK_ERROR_BUDGET
    }
    costs = {name: phases.cycles(target, threads) for name, phases in fewer.items()}
    # Plans are in the order of their errors.
    near = (name for name, cost in costs.items() if cost <= NEARLY * min(costs.values()))
    best = next(near, None)
    usual = algorithm_cycles(workload, frozenset(), target, threads)
    inner = plans[careful].tile
    if isinstance(inner, InnerTile):
        # Which the estimate of algorithms knows nothing of: as much less as its tiles take.
        usual *= _inner_cycles(inner) / output_cycles(plans[DIRECT].tile)
    if best is None or costs[best] > min(fewer[best].clearly * usual, usual - WORTH_AN_ERROR):
        return None
    return best, fewer[best].error


def _plans(workload: Workload, target: Target, threads: int) -> tuple[str, dict[str, _Plan]]:
    """The name of the knob that chooses among the plans, and the plans, the default first."""
    anchor, store = workload.stages
    plans: dict[str, _Plan] = {}
    for entry in instructions(workload, anchor, target):
        dots = DotPhases(workload, entry, target)
        kind = MatrixTile if entry.takes_matrices else RegisterTile
        tile = kind(dots.workload, *dots.product_stages, target, threads, (entry, dots.group_axis))
        if dots.share_data(tile.axes.vector):
            plans[entry.name] = _Plan(tile, dots)
    direct = plans[DIRECT] = _Plan(RegisterTile(workload, anchor, store, target, threads), None)
    if len(plans) > 1:
        return INSTRUCTION, _with_winograd(plans, workload, target, threads)
    columns, lanes = direct.tile.axes.vector.size, target.lanes(anchor.dtype.size_bytes)
    wasteful = direct.tile.copies == 1 and columns <= FILLED * lanes * -(-columns // lanes)
    along = inner_axis(workload, anchor, target) if wasteful else None
    if along is not None:
        inner = InnerTile(workload, anchor, store, target, threads, along)
        if _inner_cycles(inner) < TRIED * output_cycles(direct.tile):
            plans[INNER] = _Plan(inner, None)
    row_name = down_axis(direct.tile)
    down = RegisterTile(workload, anchor, store, target, threads, row_name=row_name) if row_name else None
    if down is not None:
        plans[DOWN] = _Plan(down, None)
    for name, phases in _phases(workload, direct.tile, down, target, threads):
        stages, inside = phases.product_stages, name == APART
        if isinstance(phases, SeparatedPhases | WinogradBlocks | PartPhases | BothPartPhases):
            made: RegisterTile = phases.tile(target, threads)
        elif isinstance(phases, PanelPhases):
            made = PanelTile(phases.workload, *stages, target, threads)
        else:
            made = RegisterTile(phases.workload, *stages, target, threads, inside=inside)
        plans[name] = _Plan(made, phases)
    return ALGORITHM, plans


def _with_winograd(
    plans: dict[str, _Plan], workload: Workload, target: Target, threads: int
) -> dict[str, _Plan]:
    """Products of bytes with fewer multiplications: exact, so that one of them can be the default.

    It is the one that costs least, with the larger constants it reads, where that is less than the products cost as
    they are. Code for edges takes several times as long to build: one without is chosen where it costs little more.
    """
    direct = algorithm_cycles(workload, frozenset(), target, threads)
    usual = next(iter(plans.values())).tile.dot
    most = 1.0 if usual is None else WORTH / usual[0].products_per_step
    found: dict[str, _Plan] = {}
    worthy: list[tuple[float, str]] = []
    for m, share in winograd_tiles(workload).items():
        products = WinogradPhases(workload, m, target)
        dot = products.dot
        if dot is None:
            continue
        name = f"winograd{m}"
        tile = RegisterTile(products.workload, *products.product_stages, target, threads, dot)
        found[name] = _Plan(tile, products)
        cycles = products.cycles(target, threads)
        if products.has_room and share / dot[0].products_per_step < most and cycles < direct:
            worthy.append((cycles * (1.0 if products.has_edges else EDGES), name))
    first = {name: found[name] for *_, name in sorted(worthy)[:1]}
    return {**first, **plans, **found}


def _phases(
    workload: Workload, tile: RegisterTile, down: RegisterTile | None, target: Target, threads: int
) -> Iterator[tuple[str, Phases]]:
    """The algorithms that apply besides the direct one; a search begins with the last.

    `down`: a tile of windows that are below each other.
    """
    below = None if down is None else separated_phases(down)
    if (shared := below or separated_phases(tile)) is not None:
        yield SEPARATED, shared
    if find_padding(workload) is not None:
        yield PADDED, padded_phases(workload, target, threads)
    if (short := short_constant_phases(workload, tile)) is not None:
        yield SHORT, short
    for m in winograd_tiles(workload):
        yield f"winograd{m}", WinogradPhases(workload, m, target)
        if (blocks := winograd_blocks(workload, m, target)) is not None:
            yield f"winograd{m} in blocks", blocks
    if can_cut(workload, target):
        yield STRASSEN, StrassenPhases(workload, target)
    parted: PartPhases | BothPartPhases | None = part_phases(workload, target)
    if (parted := parted or both_part_phases(workload, target)) is not None:
        yield PARTS, parted
    vector, lanes = tile.axes.vector, tile.axes.lanes
    if lanes > 1 and find_panels(workload, tile.anchor, vector.name) is not None:
        yield PANELS, PanelPhases(workload, vector.name, lanes, target, threads)
    if tile.copies > 1:
        yield APART, ApartPhases(workload, threads)


def _reads_lines_apart(tile: RegisterTile) -> bool:
    """Whether each product of a sum reads another line of what is not packed, of which vectors take a part."""
    size = tile.anchor.dtype.size_bytes
    if tile.axes.lanes * size >= LINE_BYTES:
        return False
    summed = tile.anchor.reduce_axes[-1].name
    read = [load for load in loads(tile.anchor.body) if load.buffer not in tile.packs]
    return all(abs(step_along(tile.workload, load, summed)) * size >= LINE_BYTES for load in read)


def _is_crowded(tile: RegisterTile, rows: int, vectors: int) -> bool:
    """Whether lines of a panel drive each other out; beside another factor that moves too, by far and for many rows."""
    found = crowding(tile.workload, tile.anchor, tile.axes, vectors, tile.target)
    return found > 1 if tile.packs else found > CROWDED and rows >= CROWDED_ROWS


def _inner_cycles(tile: InnerTile) -> float:
    """Of the products, and of adding up the lanes."""
    return output_cycles(tile) + tile.added_up


def _union(kind: str, plans: dict[str, _Plan]) -> tuple[Knob, ...]:
    """The knobs of all plans, with every choice that any of them has; `legal` tells which go together."""
    merged: dict[str, dict[Value, None]] = {}
    for plan in plans.values():
        for knob in plan.tile.knobs():
            merged.setdefault(knob.name, {}).update(dict.fromkeys(knob.choices))
    knobs = [Knob(name, tuple(sorted(c, key=_order))) for name, c in merged.items()]
    return (Knob(kind, tuple(plans)), *knobs) if len(plans) > 1 else tuple(knobs)


def _order(value: Value) -> tuple[int, int, str]:
    """Numbers by size, words after them by length and spelling: neighbours are alike."""
    return (0, value, "") if isinstance(value, int) else (1, len(str(value)), str(value))


def _assignment(knobs: tuple[Knob, ...], wanted: dict[str, Value]) -> Assignment:
    return tuple(knob.choices.index(_nearest(knob, wanted)) for knob in knobs)


def _nearest(knob: Knob, wanted: dict[str, Value]) -> Value:
    value = wanted.get(knob.name, knob.choices[0])
    if value in knob.choices:
        return value
    numbers = [c for c in knob.choices if isinstance(c, int)]
    return (
        min(numbers, key=lambda c: abs(c - value)) if numbers and isinstance(value, int) else knob.choices[0]
    )
