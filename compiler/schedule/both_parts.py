"""Parts of both factors of a product that are known at run time only, each in the order in which matrices are read.

    t[b, i, j] = sum(k) x[b, i, k] * z[b, j, k]                                     lanes along j
    →  left[b, i, p, c, k]         = the part p of x[b, i, c*K + k]                 k < K, 0 behind the end of the sum
       right[b, n, c, p, k, l*2+e] = the part p of z[b, n*16 + l, c*K + 2*k + e]    n < ceil(J / 16), l < 16, e < 2
       t[b, i, j] = sum(c, k, s) f32(left[b, i, p(s), c, k])
                                 * f32(right[b, j // 16, c, q(s), k // 2, j % 16 * 2 + k % 2])

`right` is packed as a constant would be (compiler/schedule/panels.py); two parts and their products are those of
compiler/schedule/parts.py. Three parts hold all of a float. Of their products six are as large as the last bits of the
largest one:

    (p, q) = (0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 0)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from compiler.dtype import DType
from compiler.errors import ScheduleError
from compiler.index import Index
from compiler.loop.room import spread_rows
from compiler.scalar import Apply, Bound, Cast, Const, Expr, Guard, Load, below, read_names
from compiler.schedule.panels import PACK
from compiler.schedule.parts import BLOCK, COUNT, PAIR, PART, PRODUCTS, part_of
from compiler.symbol import Axis, axis
from compiler.workload.ir import Operand, Stage, Workload

LEFT, RIGHT = "left", PACK
"""What the names of the stages that make the parts begin with; that of the sum follows."""
PLACE, GROUP, ELEMENT = "place", "group", "element"
"""Names of the axes over a block of the sum, and over the rows of a matrix of the right factor and their elements."""
_PAIR = Index.of(PAIR)
_PAIRS: Mapping[int, tuple[int, Index, Index]] = {
    COUNT: (PRODUCTS, (Index.of(PRODUCTS - 1) - _PAIR) // COUNT, _PAIR // COUNT),
    3: (6, _PAIR // 3 + _PAIR // 5, _PAIR % 5 % 3),
}
"""By the number of parts: how many of their products are added, and of each the part of the left and right factor."""
_ZERO = Const(0, DType.BF16)
_PAIRED = 2
"""Neighbours along the sum that a matrix of the right factor has side by side."""


@dataclass(frozen=True, slots=True)
class Factors:
    """The factors of a stage's product: `right` moves along the axis of the lanes, `left` does not."""

    left: Load
    right: Load
    summed: Axis


def find_factors(workload: Workload, stage: Stage, name: str) -> Factors | None:
    """The factors of a sum of products of two activations along one axis; None where a stage is none."""
    match stage.body:
        case Apply("mul", (Load() as a, Load() as b)) if stage.reducer == "sum":
            pass
        case _:
            return None
    buffers, constants = workload.buffers, {o.name for o in workload.operands if o.constant}
    along = [name in read_names(load) for load in (a, b)]
    if len(stage.reduce_axes) != 1 or sum(along) != 1 or {a.buffer, b.buffer} & constants:
        return None
    left, right = (b, a) if along[0] else (a, b)
    summed = stage.reduce_axes[0]
    plain = all(index.is_affine() for load in (left, right) for index in load.indices)
    typed = {stage.dtype, *(buffers[load.buffer].dtype for load in (left, right))} == {DType.F32}
    axes = {a.name: a for a in (*stage.axes, summed)}
    fixed = all(axes[n].extent.constant is not None for n in (name, summed.name))
    if not (plain and typed and fixed) or any(summed.name not in read_names(load) for load in (left, right)):
        return None
    return Factors(left, right, summed)


def parts_of_both(workload: Workload, parameters: tuple[int, ...]) -> Workload:
    """The rewritten Workload.

    `parameters`: (place of the stage, place of the axis of its lanes, lanes, length of the blocks of the sum, parts).
    """
    place, number, lanes, length, count = _checked(parameters)
    stage = workload.stages[place] if place < len(workload.stages) else None
    along = None if stage is None or number >= len(stage.axes) else stage.axes[number]
    found = None if stage is None or along is None else find_factors(workload, stage, along.name)
    if stage is None or along is None or found is None:
        msg = "parts_of_both needs a sum along one axis of products of two float32 activations"
        raise ScheduleError(msg)
    parting = _Parting(stage, found, along, lanes, length, count)
    (left, left_buffer, first), (right, right_buffer, second) = parting.left(), parting.right()
    body = Apply("mul", tuple(Cast(load, stage.dtype) for load in (first, second)))
    anchor = replace(stage, body=body, reduce_axes=parting.reduces)
    stages = workload.stages
    # Directly behind what makes the factor, whose loops it may then share.
    known = 1 + max((i for i, s in enumerate(stages) if s.target == found.left.buffer), default=-1)
    return replace(
        workload,
        temporaries=(left_buffer, right_buffer, *workload.temporaries),
        stages=(*stages[:known], left, *stages[known:place], right, anchor, *stages[place + 1 :]),
    )


def _checked(parameters: tuple[int, ...]) -> tuple[int, int, int, int, int]:
    if len(parameters) == 5 and parameters[4] in _PAIRS:
        place, number, lanes, length, count = parameters
        if min(place, number) >= 0 and min(lanes, length) >= 1 and length % _PAIRED == 0:
            return place, number, lanes, length, count
    msg = (
        f"parts_of_both needs a stage, an axis, lanes, an even length of blocks, and how many parts of {[*_PAIRS]}, "
        f"not {parameters}"
    )
    raise ScheduleError(msg)


@dataclass(frozen=True)
class _Parting:
    """The rewriting of one stage."""

    stage: Stage
    found: Factors
    along: Axis
    lanes: int
    length: int
    count: int

    @property
    def blocks(self) -> Axis:
        return axis(BLOCK, -(-self.found.summed.size // self.length))

    @property
    def reduces(self) -> tuple[Axis, ...]:
        """Blocks of the sum, the places in one, and the products of parts."""
        return self.blocks, axis(PLACE, self.length), axis(PAIR, _PAIRS[self.count][0])

    def left(self) -> tuple[Stage, Operand, Load]:
        """The stage that makes the parts of the left factor, what it fills, and where the sum reads it."""
        load, kept = self.found.left, self._kept(self.found.left)
        axes = (*kept, axis(PART, self.count), self.blocks, axis(PLACE, self.length))
        place = Index.of(BLOCK) * self.length + PLACE
        room = spread_rows(self.blocks.size, self.length * DType.BF16.size_bytes)
        shape = (*(a.extent for a in (*kept, axes[len(kept)])), Index.of(room), Index.of(self.length))
        stage, buffer = self._copy(LEFT, axes, shape, self._to_end(self._element(load, place, {}), place))
        _, part, _ = _PAIRS[self.count]
        at = (*(Index.of(a.name) for a in kept), part, Index.of(BLOCK), Index.of(PLACE))
        return stage, buffer, Load(buffer.name, at)

    def right(self) -> tuple[Stage, Operand, Load]:
        """The same of the right factor."""
        load, name = self.found.right, self.along.name
        kept = tuple(a for a in self._kept(load) if a is not self.along)
        panel, group = (
            axis(f"{name}.p", -(-self.along.size // self.lanes)),
            axis(GROUP, self.length // _PAIRED),
        )
        axes = (*kept, panel, self.blocks, axis(PART, self.count), group, axis(ELEMENT, self.lanes * _PAIRED))
        column = Index.of(panel.name) * self.lanes + Index.of(ELEMENT) // _PAIRED
        place = Index.of(BLOCK) * self.length + Index.of(GROUP) * _PAIRED + Index.of(ELEMENT) % _PAIRED
        stage, buffer = self._copy(
            RIGHT,
            axes,
            tuple(a.extent for a in axes),
            self._to_last_pair(self._element(load, place, {name: column})),
        )
        here, (_, _, part) = Index.of(name), _PAIRS[self.count]
        element = here % self.lanes * _PAIRED + Index.of(PLACE) % _PAIRED
        at = (*(Index.of(a.name) for a in kept), here // self.lanes, Index.of(BLOCK), part)
        return stage, buffer, Load(buffer.name, (*at, Index.of(PLACE) // _PAIRED, element))

    def _kept(self, load: Load) -> tuple[Axis, ...]:
        names = read_names(load)
        return tuple(a for a in self.stage.axes if a.name in names)

    def _copy(
        self, word: str, axes: tuple[Axis, ...], shape: tuple[Index, ...], value: Expr
    ) -> tuple[Stage, Operand]:
        name = f"{word}.{self.stage.name}"
        buffer = Operand(f"{name}_parts", shape, DType.BF16)
        at = tuple(Index.of(a.name) for a in axes)
        return Stage(name, axes, (), None, value, buffer.name, at, buffer.dtype), buffer

    def _element(self, load: Load, place: Index, places: dict[str, Index]) -> Expr:
        """A part of an element; 0 behind the ends, where zeros of both factors meet."""
        moved = {**places, self.found.summed.name: place}
        element = Load(load.buffer, tuple(i.substitute(moved) for i in load.indices))
        value: Expr = part_of(element, DType.BF16, self.count)
        if places and self.along.size % self.lanes:
            value = Guard((below(moved[self.along.name], self.along.extent),), value, _ZERO)
        return value

    def _to_end(self, value: Expr, place: Index) -> Expr:
        """0 behind the end of the sum."""
        extent = self.found.summed.extent
        return Guard((below(place, extent),), value, _ZERO) if self._is_cut else value

    def _to_last_pair(self, value: Expr) -> Expr:
        """The same of whole pairs, tested once for all lanes; half of the last pair may be behind the end."""
        size = self.found.summed.size
        if not self._is_cut:
            return value
        pair = Index.of(BLOCK) * (self.length // _PAIRED) + GROUP
        if size % _PAIRED:
            half = Guard((Bound(Index.of(ELEMENT) % _PAIRED, 0, 1),), value, _ZERO)
            value = Guard((Bound(pair, 0, size // _PAIRED),), value, half)
        return Guard((Bound(pair, 0, -(-size // _PAIRED)),), value, _ZERO)

    @property
    def _is_cut(self) -> bool:
        return self.found.summed.size % self.length > 0


def factors_of(workload: Workload, stage: Stage, dtype: DType) -> tuple[Load, Load] | None:
    """The left and the right factor of a sum of products that parts were made for; None of any other."""
    made = {o.name for o in workload.temporaries if o.dtype is dtype}
    match stage.body:
        case Apply("mul", (Cast(Load() as left), Cast(Load() as right))) if stage.reducer == "sum":
            return (left, right) if {left.buffer, right.buffer} <= made else None
        case _:
            return None
