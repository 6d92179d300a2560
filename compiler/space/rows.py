"""Rule: reductions and maps along the same rows, a few rows at a time, every intermediate in registers or the cache.

for rows (parallel):                      softmax: the columns are contiguous
    largest: vectors of partial results, combined at the end
    power, kept in a local buffer
    total, the same way as the first
    share, stored
"""

from __future__ import annotations

from math import prod

from compiler.errors import ScheduleError
from compiler.schedule.moments import LEAST, find_moments, moments
from compiler.schedule.schedule import Schedule
from compiler.schedule.steps import Algorithm
from compiler.space.chains import has_long_chain
from compiler.space.row_choices import CHEAP, IN_REGISTERS, KEEP, REPEAT, SHORT_ROW, RowChoices
from compiler.space.row_phases import RowPhases
from compiler.space.row_plan import RowPlan
from compiler.space.row_structure import RowAxes, row_axes, rows_shared, summed_axis
from compiler.space.skewed_rows import SkewedRows, skewed_rows
from compiler.space.space import Knob, SearchSpace, Value, number
from compiler.space.structure import MANY_CHANNELS
from compiler.target import Target
from compiler.workload.ir import Stage, Workload

CHOICES = (1, 2, 4, 8)
SWEEPS = (1, 4, 8, 16, 32, 64)
STREAMS = (32, 128)
TOGETHER, APART = "together", "apart"
DIRECT, MOMENTS, SKEWED = "direct", "moments", "skewed"
WORTH_A_BARRIER = 3 << 10
"""Elements per thread from which on it pays to wait for the others between the stages: those that one of them reads
alone have to come from the caches of those that wrote them."""
FEW_OTHERS = 8
"""Elements that are summed up for each of all other stages, where phases do not take longer to go through."""
SHARES_PER_THREAD = 4
PAIR = 2
LONG_MOMENTS = 64
"""Vectors of a row from which on reading it once less is worth a sum of its beginning."""
SHORTEST_ROW, LONG_ROW = 6, 512
"""Vectors of a row: up to the first many rows are taken at a time, above the second only one (SHORT_ROW: between)."""
ROWS_UNDER_WAY = 6
"""Rows of a sweep with one in a block, read or stored, that have to stay in half the second cache."""
NEAR_ROWS = 5
"""The same in the first cache, besides those that all share, where little is calculated: what a row's later stages read
again is there if they follow at once, and a stage has not enough to do to wait for the second cache meanwhile."""
STREAMED_ROW = 8
"""Vectors of a row from which on prefetchers follow it where it is read once."""
CACHED_BLOCKS = 5
"""Blocks of rows, read or stored, that are under way in a sweep and have to stay in the first cache."""
LONGEST_ROW = 32
"""Vectors of a row up to which a block has several: the end of a longer one's sum is a small part of its time."""
LEAST_SWEEP = 8
"""Blocks of several rows that a sweep has at least: its first and last turns do not have all stages."""
TILE = 4
"""Vectors under way in a row of a sweep: other stages fill what they leave free."""
ELEMENTARY_TILE = 2
"""The same where an elementary function needs registers for itself, and there are few."""
FEW_REGISTERS = 16
SPARE_REGISTERS = 4
"""What a tile of partial results leaves for operands."""


class Rows:
    """The rule."""

    name = "rows"

    def applies(self, workload: Workload) -> bool:
        """All reductions have the same rows and take each element once; the last stage is a map over those rows."""
        axes = row_axes(workload)
        return axes is not None and not (len(workload.stages) == 2 and _are_pairs(axes))

    def space(self, workload: Workload, target: Target, threads: int) -> SearchSpace:
        """Knobs: block, sweep, accumulators, unroll, parallel; maps (which are repeated) where several stages read one.

        Where there are a mean and a variance also algorithm: the definition, or both in one pass; where rows begin
        anywhere in a line, as they are or skewed. With several threads phases: a row's stages together, or apart on all
        threads.
        """
        axes = row_axes(workload)
        if axes is None:
            msg = "the stages share no rows"
            raise ScheduleError(msg)
        size_bytes = workload.buffers[workload.stages[-1].target].dtype.size_bytes
        plan = RowPlan(workload, axes, target.lanes(size_bytes), target.l1_bytes // size_bytes)
        one_pass, skew = _moments(plan), skewed_rows(plan, target)
        found = {DIRECT: plan, MOMENTS: one_pass, SKEWED: None if skew is None else skew.plan}
        plans = {name: made for name, made in found.items() if made is not None}

        def legal(values: dict[str, Value]) -> bool:
            choices, plan = _choices(values), plans[str(values.get("algorithm", DIRECT))]
            if values.get("phases") == APART:
                return plan.algorithm is None and _fits_phases(plan, choices, target)
            if skew is not None and plan is skew.plan:
                return skew.allows(choices)
            return _fits(plan, choices, target, size_bytes)

        def build(values: dict[str, Value]) -> Schedule:
            if not legal(values):
                msg = f"the knobs {values} do not fit the target; choose legal ones"
                raise ScheduleError(msg)
            plan = plans[str(values.get("algorithm", DIRECT))]
            made = RowPhases(plan, threads) if values.get("phases") == APART else plan
            return Schedule(tuple(made.steps(_choices(values))))

        knobs = _knobs(plan, threads, () if skew is None else (skew.block,))
        if len(plans) > 1:
            knobs = (Knob("algorithm", tuple(plans)), *knobs)
        usual = {**_defaults(plan, target, threads), "algorithm": DIRECT}
        wanted = usual | _algorithm(
            plan, skew, several=one_pass is not None, together=usual["phases"] == TOGETHER
        )
        default = tuple(_nearest(knob, wanted[knob.name]) for knob in knobs)
        kept = {k.name: k.choices[i] for k, i in zip(knobs, default, strict=True)}
        if not legal(kept):
            wanted["maps"] = REPEAT
            default = tuple(_nearest(knob, wanted[knob.name]) for knob in knobs)
        direct = tuple(_nearest(knob, usual[knob.name]) for knob in knobs)
        starts = (direct,) if skew is not None and direct != default else ()
        return SearchSpace(knobs, default, legal, build, starts)


def _are_pairs(axes: RowAxes) -> bool:
    """Whether all that is stored are sums of two elements side by side: two lanes of a vector; neighbours fill it."""
    alone = not axes.columns and not axes.along_rows
    return alone and axes.vector is not None and axes.vector.size == PAIR


def _fits(plan: RowPlan, choices: RowChoices, target: Target, size_bytes: int) -> bool:
    """Whether caches and registers have room, and blocks come out even."""
    streams = plan.axes.along_rows and choices.block > IN_REGISTERS
    rows = 1 if plan.in_turn(choices) else choices.block
    tile = choices.unroll if streams else rows * choices.accumulators
    return (
        plan.local_elements(choices) * size_bytes <= target.l2_bytes // 2
        and (choices.sweep == 1 or plan.sweeps(choices))
        and plan.divides(choices)
        and (tile == 1 or tile <= target.vector_registers - SPARE_REGISTERS)
    )


def _fits_phases(plan: RowPlan, choices: RowChoices, target: Target) -> bool:
    """Whether registers hold the partial results of neighbouring rows; others stand in one vector."""
    tile = choices.block * choices.accumulators if plan.axes.along_rows else 1
    return tile <= target.vector_registers - SPARE_REGISTERS


def _algorithm(plan: RowPlan, skew: SkewedRows | None, *, several: bool, together: bool) -> dict[str, Value]:
    """The default algorithm and what it needs; `several`: there is a mean and a variance, `together`: in one phase."""
    if skew is not None and together:
        return {"algorithm": SKEWED, "block": skew.block, "accumulators": skew.accumulators, "sweep": 1}
    long = several and plan.row_vectors >= LONG_MOMENTS and not plan.axes.along_rows
    return {"algorithm": MOMENTS, "block": 1} if long and together else {}


def _knobs(plan: RowPlan, threads: int, blocks: tuple[int, ...]) -> tuple[Knob, ...]:
    """`blocks`: further numbers of rows."""
    usual = {*CHOICES, *STREAMS} if plan.axes.along_rows else {*CHOICES, *blocks}
    knobs = [
        Knob("block", tuple(sorted(usual))),
        *(() if plan.axes.along_rows else (Knob("sweep", SWEEPS),)),
        Knob("accumulators", CHOICES),
        Knob("unroll", CHOICES[:3]),
        Knob("parallel", tuple(range(1, len(plan.outer_sizes) + 1))),
    ]
    if plan.shared:
        some = len(plan.cheap) not in (0, len(plan.shared))
        knobs.append(Knob("maps", (KEEP, REPEAT, CHEAP) if some else (KEEP, REPEAT)))
    if threads > 1:
        knobs.append(Knob("phases", (TOGETHER, APART)))
    return tuple(knobs)


def _moments(plan: RowPlan) -> RowPlan | None:
    """With mean and variance in one pass, where there are both."""
    found = find_moments(plan.workload)
    if found is None:
        return None
    step = Algorithm("moments", _first(found.total, plan))
    made = moments(plan.workload, step.parameters)
    shared = row_axes(made)
    return None if shared is None else RowPlan(made, shared, plan.lanes, plan.near, step)


def _first(total: Stage, plan: RowPlan) -> tuple[int, ...]:
    """Of each reduction axis of a sum, how many of its first are enough to shift by: one run of memory, if it can be.

    Along the vectors as many as the partial results under way take.
    """
    vector, counts = summed_axis(total, plan.workload), {}
    inside = prod(a.size for a in total.reduce_axes)
    needed = -(-inside // LEAST)
    for a in sorted(total.reduce_axes, key=lambda a: a == vector):
        inside //= a.size
        count = -(-needed // inside)
        needed = -(-needed // count)
        if a == vector:
            unit = plan.lanes * TILE if count > plan.lanes else plan.lanes
            count = min(a.size, -(-count // unit) * unit)
        counts[a.name] = count
    return tuple(counts[a.name] for a in total.reduce_axes)


def _choices(values: dict[str, Value]) -> RowChoices:
    return RowChoices(
        block=number(values, "block"),
        sweep=number(values, "sweep"),
        accumulators=number(values, "accumulators"),
        unroll=number(values, "unroll"),
        maps=str(values.get("maps", KEEP)),
        parallel=number(values, "parallel"),
    )


def _defaults(plan: RowPlan, target: Target, threads: int) -> dict[str, Value]:
    """What reads along the columns has long vectors; neighbouring rows that fill the lanes need less."""
    vectors, sweep, apart = plan.row_vectors, 1, _worth_phases(plan, threads)
    if plan.axes.along_rows:
        few = apart or vectors <= IN_REGISTERS // 2
        block = min(vectors, IN_REGISTERS // 2) if few else _stream(plan, vectors, threads)
        accumulators = 8 if block > IN_REGISTERS else 2
    elif swept := _sweep(plan, target, threads, vectors):
        block, sweep = swept
        few = _is_elementary(plan) and target.vector_registers <= FEW_REGISTERS
        accumulators = ELEMENTARY_TILE if few or block > 1 else TILE
    else:
        block, accumulators = _tile(plan, vectors)
    parallel, total = 0, 1
    for size in plan.outer_sizes:
        parallel, total = parallel + 1, total * size
        if total >= SHARES_PER_THREAD * threads:
            break
    return {
        "block": block,
        "sweep": sweep,
        "accumulators": accumulators,
        "unroll": accumulators if sweep > 1 else 2 if plan.axes.along_rows or _is_elementary(plan) else 4,
        "parallel": parallel,
        "maps": KEEP if not plan.cheap else REPEAT if plan.cheap == plan.shared else CHEAP,
        "phases": APART if apart else TOGETHER,
    }


def _worth_phases(plan: RowPlan, threads: int) -> bool:
    """Whether few rows leave threads idle, or all would read what others have in their caches.

    Where neighbouring rows fill the lanes, threads that share out the rows read a part of every line of an image, say.
    The kernels before and behind share out its lines (`structure.shared_axis`). With a sum in phases threads keep to
    those, for nothing but sums is handed over.
    """
    *others, most = sorted(s.points for s in plan.workload.stages)
    if prod(plan.outer_sizes) < threads and most >= WORTH_A_BARRIER * threads:
        return True
    channels = plan.axes.vector if plan.axes.along_rows else None
    if channels is None or prod(a.size for a in plan.axes.rows if a != channels) >= threads:
        return False
    lines = channels.size < MANY_CHANNELS * (most // channels.size)
    return lines and sum(others) * FEW_OTHERS <= most and most >= WORTH_A_BARRIER * threads


def _tile(plan: RowPlan, vectors: int) -> tuple[int, int]:
    """Rows and accumulators of each: the longer the rows, the fewer of them it takes to hide what waits.

    Rows of which nothing but sums is left are read one after the other, as memory gives them.
    """
    if vectors > LONG_ROW:
        return 1, 8
    if not plan.axes.columns and vectors >= STREAMED_ROW:
        return 1, TILE
    return (4, min(2, vectors)) if vectors < SHORT_ROW else (2, 4)


def _sweep(plan: RowPlan, target: Target, threads: int, vectors: int) -> tuple[int, int] | None:
    """Rows of a block, and blocks that follow each other through the stages; None where that is no use.

    As many as leave each thread its shares: the first and the last few have no others to fill the time with. The
    sums of a block's rows end together.
    """
    shared = rows_shared(plan.workload, plan.axes)
    if _is_elementary(plan) and not shared:
        cached = ROWS_UNDER_WAY * vectors * target.vector_bytes <= target.l2_bytes // 2
    else:
        cached = (NEAR_ROWS + shared) * plan.row_elements <= plan.near
    if not (plan.axes.columns and plan.all_follow and cached):
        return None
    shares = 1 if threads == 1 else SHARES_PER_THREAD * threads
    rows, all_rows = plan.outer_sizes[-1], prod(plan.outer_sizes)
    most = TILE if vectors <= SHORTEST_ROW else 2 if vectors < SHORT_ROW else _rows_in_turn(vectors, target)
    for block in (c for c in reversed(CHOICES) if c <= most):
        several = block > 1 and vectors >= SHORT_ROW
        fitting = [n for n in SWEEPS[1:] if n * block <= rows and n * block * shares <= all_rows]
        if plan.in_blocks(block) and fitting and (max(fitting) >= LEAST_SWEEP or not several):
            return block, max(fitting)
    return None


def _rows_in_turn(vectors: int, target: Target) -> int:
    """Rows of a block that go through a stage one after the other: their sums end together."""
    limit = target.l1_bytes // (CACHED_BLOCKS * vectors * target.vector_bytes)
    return max(1, limit) if vectors <= LONGEST_ROW else 1


def _is_elementary(plan: RowPlan) -> bool:
    """Whether an elementary function is computed of each element: a few vectors of it fill the registers."""
    elements = max(s.points for s in plan.workload.stages)
    return any(has_long_chain(s) for s in plan.workload.stages if s.points == elements)


def _stream(plan: RowPlan, vectors: int, threads: int) -> int:
    """The largest block of vectors that leaves a share for every thread."""
    others = 1
    for size in plan.outer_sizes[:-1]:
        others *= size
    size = plan.axes.vector.size if plan.axes.vector is not None else 1
    for block in reversed(STREAMS):
        whole = block * plan.lanes >= size or size % (block * plan.lanes) == 0
        if whole and others * -(-vectors // block) >= threads:
            return block
    return IN_REGISTERS // 2


def _nearest(knob: Knob, wanted: Value) -> int:
    """The place of the largest choice that is not above a number, or of a word."""
    if not isinstance(wanted, int):
        return knob.choices.index(wanted)
    return max(i for i, choice in enumerate(knob.choices) if isinstance(choice, int) and choice <= wanted)
