"""Weave: the loops of stages that are turns apart become one loop.

    for t in 0..66:
      if t < 64:         s = t:     m = 0;  for v in 0..4: m[lane] = m[lane] + x[s, 8 v + lane];          n[s % 2] = ...
      if 0 <= t-1 < 64:  s = t - 1: k = 0;  for v in 0..4: k[lane] = k[lane] + (x[s, 8 v + lane] - n[s % 2]) ** 2; ...
    →  for t in 0..66:
         if 1 <= t < 64: s = t; u = t - 1; m = 0; k = 0
                         for v in 0..4: m[lane] = ... x[s, 8 v + lane]; k[lane] = ... x[u, 8 v + lane] - n[u % 2] ...
                         n[s % 2] = ...
         else:           as before

The first stage waits for memory and the others for the units that calculate: one behind the other, each waits alone.
In one loop both are busy all the time. It is done in the turns that have all stages, or all behind one of another
length, where each has one loop, all of the same length, and what one stores no other one touches in the same turn: the
software pipeline (compiler/loop/software_pipeline.py) made them so. Loops with tiles in them, which fill the registers,
stay apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations

from compiler.index import Index, Mod
from compiler.loop.ir import (
    Block,
    For,
    If,
    Let,
    LoopKind,
    LoopNest,
    Stmt,
    Store,
    block,
    walk_statements,
    with_parts,
)
from compiler.loop.simplify import substitute_statement
from compiler.scalar import Bound, Load, loads


def weave(nest: LoopNest) -> LoopNest:
    """Weave the stages of every loop over turns. The nest must be merged (compiler/loop/merge.py)."""
    body = _weave(nest.body)
    return nest if body is nest.body else replace(nest, body=body)


@dataclass(frozen=True, slots=True)
class _Stage:
    """What one stage does: in which turns, while `left` holds, inside of a name for the iteration that it does."""

    turns: Bound
    left: Bound | None
    name: Let

    @property
    def late(self) -> int:
        """How many turns it is behind."""
        return -self.turns.index.const


@dataclass(frozen=True, slots=True)
class _Around:
    """A loop that runs, and what stands around it."""

    before: tuple[Stmt, ...]
    loop: For
    after: tuple[Stmt, ...]


def _weave(stmt: Stmt) -> Stmt:
    if isinstance(stmt, For) and stmt.kind is LoopKind.SERIAL and isinstance(stmt.body, Block):
        stages = [_stage(stmt.var, part) for part in stmt.body.statements]
        known = [stage for stage in stages if stage is not None]
        if len(known) == len(stages) and (body := _last_woven(stmt.var, known, stmt.body)) is not None:
            return replace(stmt, body=body)
    return with_parts(stmt, _weave)


def _last_woven(turn: str, stages: Sequence[_Stage], body: Block) -> Stmt | None:
    """The turn with all stages woven, or those behind the ones of another length; None where there are none."""
    for first in range(len(stages) - 1):
        run = stages[first:]
        low, high = _all_turns(run)
        if low < high and _alike(run) and _apart(run):
            return block(*body.statements[:first], _woven(turn, run, block(*body.statements[first:])))
    return None


def _all_turns(stages: Sequence[_Stage]) -> tuple[int, int]:
    """The turns that have all stages: the first, and the one behind the last."""
    low = max(stage.turns.low + stage.late for stage in stages)
    return low, min(stage.turns.high + stage.late for stage in stages)


def _stage(turn: str, stmt: Stmt) -> _Stage | None:
    match stmt:
        case If(turns, If(left, Let(_, at, _, _, None) as name, Block(())), Block(())):
            found = _Stage(turns, left, name)
        case If(turns, Let(_, at, _, _, None) as name, Block(())):
            found = _Stage(turns, None, name)
        case _:
            return None
    return found if turns.index == at and (at - turn).constant is not None else None


def _around(stmt: Stmt) -> _Around | None:
    """The one loop of a statement that runs; None where there is another number of them."""
    parts = stmt.statements if isinstance(stmt, Block) else (stmt,)
    running = [i for i, part in enumerate(parts) if isinstance(part, For) and part.kind is LoopKind.SERIAL]
    if len(running) != 1:
        return None
    (place,) = running
    loop = parts[place]
    assert isinstance(loop, For)
    return _Around(parts[:place], loop, parts[place + 1 :])


def _alike(stages: Sequence[_Stage]) -> bool:
    """Whether there are several that end alike, and each has one loop of vectors, all equally long."""
    around = [_around(stage.name.body) for stage in stages]
    ends = {
        stage.left and (stage.left.index - stage.late, stage.left.low, stage.left.high) for stage in stages
    }
    loops = [each.loop for each in around if each is not None]
    tiles = any(
        isinstance(s, For) and s.kind is LoopKind.UNROLLED for loop in loops for s in walk_statements(loop)
    )
    same = len({loop.extent for loop in loops}) == len(ends) == 1
    return len(loops) == len(stages) > 1 and same and not tiles


def _apart(stages: Sequence[_Stage]) -> bool:
    """Whether in one turn no stage touches what another one stores."""
    for first, second in combinations(map(_Touched.by, stages), 2):
        ranges = {**first.ranges, **second.ranges}
        pairs = [(a, b) for a in first.stored for b in second.used]
        pairs += [(a, b) for a in first.used for b in second.stored]
        for a, b in ((a, b) for a, b in pairs if a.buffer == b.buffer):
            places = zip(a.indices, b.indices, strict=True)
            if not any(_differ(*both, ranges) for both in places):
                return False
    return True


@dataclass(frozen=True, slots=True)
class _Touched:
    """Places that a stage stores to, all that it touches, and the ranges of its own loops."""

    stored: frozenset[Load]
    used: frozenset[Load]
    ranges: Mapping[str, int]

    @staticmethod
    def by(stage: _Stage) -> _Touched:
        body = substitute_statement(stage.name.body, {stage.name.var: stage.name.value})
        inner = list(walk_statements(body))
        stores = [s for s in inner if isinstance(s, Store)]
        stored = frozenset(Load(s.buffer, s.indices) for s in stores)
        return _Touched(
            stored,
            stored.union(load for s in stores for load in loads(s.value)),
            {s.var: s.extent.limit for s in inner if isinstance(s, For)},
        )


def _differ(first: Index, second: Index, ranges: Mapping[str, int]) -> bool:
    """Whether two indices are never equal: all that they may differ by is on one side of 0, or remainders differ."""
    difference = first - second
    least = _remainders_apart(difference)
    names = difference.names() if least is None else least[1].names()
    if not names <= ranges.keys():
        return False
    if least is None:
        low, high = difference.bounds(ranges)
        return low > 0 or high < 0
    low, high = least[1].bounds(ranges)
    return -least[0] < low and high < least[0]


def _remainders_apart(difference: Index) -> tuple[int, Index] | None:
    """What two remainders in a difference that are never equal differ by at least, and what is left of it."""
    for (a, c), (b, d) in combinations(difference.terms, 2):
        match a, b:
            case Mod(value, int(divisor)), Mod(other, same) if c == -d and divisor == same:
                apart = (value - other).constant
                if apart is not None and apart % divisor:
                    return abs(c), difference - Index.sum(((a, c), (b, d)))
    return None


def _woven(turn: str, stages: Sequence[_Stage], apart: Stmt) -> Stmt:
    low, high = _all_turns(stages)
    body = _together([stage.name.body for stage in stages])
    for stage in reversed(stages):
        body = replace(stage.name, body=body)
    first = min(stages, key=lambda stage: stage.late)
    if first.left is not None:
        body = If(first.left, body, apart)
    return If(Bound(Index.of(turn), low, high), body, apart)


def _together(bodies: Sequence[Stmt]) -> Stmt:
    """All of them, with one loop in place of one in each."""
    found = [_around(body) for body in bodies]
    around = [both for both in found if both is not None]
    if len(around) < len(bodies) or len({each.loop.extent for each in around}) != 1:
        return block(*bodies)
    loop = around[0].loop
    inner = [substitute_statement(each.loop.body, {each.loop.var: Index.of(loop.var)}) for each in around]
    before, after = [each.before for each in around], [each.after for each in around]
    return block(*chain(*before), replace(loop, body=_together(inner)), *chain(*after))
