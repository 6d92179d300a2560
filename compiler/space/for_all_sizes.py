"""The space of a Workload with symbols: of the choices for its nominal sizes, those that are legal for all sizes.

A loop over a symbolic extent can be split, tiled, fused and shared out, but not unrolled whole; and a tile whose last
ones need too many forms makes too much code. The rules chose their default for the nominal sizes. Where it is not
legal, or leaves threads idle at the smallest ones, other loops are shared out, and only then the tile is changed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace

from compiler.errors import CompileError, ScheduleError
from compiler.loop.count import LOOP_LIMIT, most_loops
from compiler.loop.peel import peel
from compiler.loop.settle import settle
from compiler.loop.simplify import simplify
from compiler.loop.skip import skip
from compiler.loop.software_pipeline import software_pipeline
from compiler.schedule.lower import lower
from compiler.schedule.primitives import replay
from compiler.schedule.steps import Algorithm
from compiler.space.space import Assignment, SearchSpace, Value
from compiler.symbol import size_at
from compiler.workload.ir import Workload

_LOOP_KNOBS = ("order", "parallel")
"""Knobs that say which loops are shared out; the others shape the tile."""
_SHARES_PER_THREAD = 4
_TRIED = 512

Shares = tuple[int, int]
"""Iterations of the parallel loop (the shortest, of several phases) at the smallest and at the nominal sizes."""
_ILLEGAL: Shares = (0, 0)


def for_all_sizes(space: SearchSpace, workload: Workload, threads: int) -> SearchSpace:
    """The space restricted to Schedules that apply to the symbolic Workload; its default is a near one.

    Raises CompileError where no Schedule is legal.
    """
    space = _for_any_number(space, workload)
    known: dict[tuple[Value, ...], Shares] = {}

    def shares(values: dict[str, Value]) -> Shares:
        key = tuple(values.values())
        if key not in known:
            known[key] = _shares(space, values, workload) if space.legal(values) else _ILLEGAL
        return known[key]

    def shares_of(assignment: Assignment) -> Shares:
        return shares(space.values(assignment))

    default = _default(space, shares_of, _SHARES_PER_THREAD * threads if threads > 1 else 1)
    if default is None:
        msg = f"workload {workload.digest[:12]} has no schedule for all sizes"
        raise CompileError(msg)
    starts = tuple(assignment for assignment in space.starts if shares_of(assignment) > _ILLEGAL)
    return replace(space, default=default, legal=lambda values: shares(values) > _ILLEGAL, starts=starts)


def _for_any_number(space: SearchSpace, workload: Workload) -> SearchSpace:
    """With a default that suits any number of rows, where nobody said how many there are.

    Constants in three bytes suit a few: of many, products take longer than what is waited for.
    """
    known = all(symbol.hints for symbol in workload.symbols)
    first = space.schedule(space.default).steps[:1]
    if known or space.careful is None or first != (Algorithm("short_constants", ()),):
        return space
    return replace(space, default=space.careful, error=0.0, careful=None)


def _shares(space: SearchSpace, values: dict[str, Value], workload: Workload) -> Shares:
    try:
        nest = lower(replay(workload, space.build(values)), "check")
        pipelined = software_pipeline(simplify(nest))
    except ScheduleError:
        return _ILLEGAL
    if most_loops(peel(skip(settle(pipelined)))) > LOOP_LIMIT:
        return _ILLEGAL
    smallest = {symbol.name: symbol.low for symbol in workload.symbols}
    usual = {symbol.name: symbol.nominal for symbol in workload.symbols}
    at_smallest, at_usual = (
        min(size_at(extent, sizes) for extent in nest.parallel_extents) for sizes in (smallest, usual)
    )
    return at_smallest, at_usual


def _default(space: SearchSpace, shares: Callable[[Assignment], Shares], enough: int) -> Assignment | None:
    """The nearest assignment with enough shares, else the one with most, else the nearest that is legal."""
    same_tile = list(_other_loops(space))
    for assignment in same_tile:
        if shares(assignment)[0] >= enough:
            return assignment
    best = max(same_tile, key=shares)
    if shares(best) > _ILLEGAL:
        return best
    others = itertools.chain(space.starts, _one_changed(space), space.enumerate(_TRIED))
    return next((a for a in others if shares(a) > _ILLEGAL), None)


def _other_loops(space: SearchSpace) -> Iterator[Assignment]:
    """Assignments with the default's tile, its own first, then those with its order of loops."""
    choices = [
        (place, *(i for i in range(len(knob.choices)) if i != place))
        if knob.name in _LOOP_KNOBS
        else (place,)
        for place, knob in zip(space.default, space.knobs, strict=True)
    ]
    yield from itertools.product(*choices)


def _one_changed(space: SearchSpace) -> Iterator[Assignment]:
    for place, knob in enumerate(space.knobs):
        for choice in range(len(knob.choices)):
            yield (*space.default[:place], choice, *space.default[place + 1 :])
