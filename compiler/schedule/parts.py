"""Parts: floats as sums of two bf16 numbers each, so that an instruction for those may multiply them.

    t0[m, n] = sum(k) x[m, k] * w[k, n]
    →  data[m, p, b, k] = bf16(x) if p < 1 else bf16(x - f32(bf16(x)))                  x = x[m, b*K + k], k < K
       t0[m, n] = sum(b, k, s) f32(data[m, p(s), b, k]) * f32(parts(w)[b*K + k, n, q(s)])

    with (p, q) = (1, 0), (0, 0), (0, 1)

Two parts keep 16 bits of a float's 24, and the product of the two smaller ones is left out: each product of the sum is
off by 2**-15 of itself at most, by a fifth of that mostly, and the sum of many by far less than that of the largest of
such sums. Products are exact in f32, where they are added up. The larger part is always finite, so that infinities stay
what they are. The instruction takes parts below 2**-126 for zero: of numbers below 2**-118 only one is left.

Source: G. Henry, P. Tang, A. Heinecke, Leveraging the bfloat16 artificial intelligence datatype for higher-precision
computations, IEEE ARITH 2019.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from compiler.dtype import DType
from compiler.errors import ScheduleError
from compiler.index import Index
from compiler.loop.room import spread_rows
from compiler.packing import Parts
from compiler.scalar import Bound, Cast, Expr, Guard, Load, apply, rewrite, substitute
from compiler.schedule.columns import Columns, columns
from compiler.schedule.contraction import find_contraction, fits, group_axis
from compiler.schedule.copied_data import BUFFER, LINES, Copying
from compiler.schedule.joined import Joined, join
from compiler.schedule.lines import in_lines
from compiler.schedule.patches import Patches, patches
from compiler.schedule.planes import in_planes
from compiler.symbol import Axis, axis, static
from compiler.workload.ir import Operand, Workload

COUNT, PRODUCTS = 2, 3
"""Parts of a number, and products of parts for one of two numbers. Neighbouring ones have a part in common."""
JOINED = 2
"""A form besides LINES: a window's places and channels are one sum."""
PATCHES = 3
"""Another form: windows beside each other are copied one after the other, and each is one sum."""
COLUMNS = 4
"""Another form: what lines of a window hold at one place is copied side by side, and joined to what is next to it."""
SUMMED: Mapping[int, Callable[[Workload], Joined | Patches | Columns]] = {
    JOINED: join,
    PATCHES: patches,
    COLUMNS: columns,
}
"""Forms that make one sum of several, and how."""
PART, PAIR, BLOCK = "part", "pair", "block"
"""Names of the axes over the parts of the data, over the products, and over blocks of the sum."""


def parts(workload: Workload, parameters: tuple[int, ...]) -> Workload:
    """The rewritten Workload.

    `parameters`: (elements of a block of the sum, which is filled up to whole ones,), or that and a form: LINES, where
    all lines of windows are one (compiler/schedule/lines.py), JOINED, where the places of a window and their channels
    are (compiler/schedule/joined.py), PATCHES, where all of a window is (compiler/schedule/patches.py), or COLUMNS,
    where its lines are (compiler/schedule/columns.py), and then the places of a line that are copied at once.
    """
    length, *form = parameters or (0,)
    forms = (LINES, *SUMMED)
    known = not form or (form[0] in forms and len(form) == (2 if form[0] == COLUMNS else 1))
    if not known or min(length, *form, 1) < 1:
        msg = f"parts needs the length of blocks, and perhaps one of the forms {forms}, not {parameters}"
        raise ScheduleError(msg)
    if form and form[0] in SUMMED:
        line = SUMMED[form[0]](workload)
        whole = form[1] * line.length if isinstance(line, Columns) else 1
        return line.apart(_parts(line.workload, length, whole))
    made = _parts(workload, length)
    return in_lines(in_planes(made)) if form else made


def _parts(workload: Workload, length: int, whole: int = 1) -> Workload:
    stage, buffers = workload.stages[0], workload.buffers
    found = find_contraction(workload, stage)
    grouped = None if found is None else group_axis(stage, found, length)
    if found is None or grouped is None or stage.dtype is not DType.F32:
        msg = "parts needs a sum of products with a constant, in float32"
        raise ScheduleError(msg)
    if any(index.const for index in found.weights.indices):
        msg = "parts needs a constant that is read from its first element on"
        raise ScheduleError(msg)
    if not all(fits(e, DType.F32, lambda name: buffers[name].dtype) for e in (found.data, found.weights)):
        msg = "parts needs factors that are float32 in memory"
        raise ScheduleError(msg)
    return _Parting(workload, stage, found, grouped, DType.BF16, length, whole).workload()


def part_of(value: Expr, dtype: DType, count: int = COUNT) -> Expr:
    """The part of an element that the axis PART numbers, of so many.

    All but the last are finite, so that an infinity is in one of them alone.
    """
    found: list[Expr] = []
    for _ in range(count - 1):
        found.append(apply("finite_bf16", value))
        value = apply("sub", value, found[-1])
    chosen: Expr = Cast(apply("as_bf16", value), dtype)
    for number, part in reversed(list(enumerate(found, start=1))):
        chosen = Guard((Bound(Index.of(PART), 0, number),), Cast(part, dtype), chosen)
    return chosen


class _Parting(Copying):
    def converted(self, value: Expr) -> Expr:
        """The part of an element."""
        return part_of(value, self.dtype)

    def rewritten(
        self, axes: tuple[Axis, ...], value: Expr, read: tuple[Index, ...], reduces: tuple[Axis, ...]
    ) -> Workload:
        """Both factors have an axis over their parts, and the sum is over pairs of them as well."""
        pair, last = Index.of(PAIR), axes[-1]
        ours, theirs = (Index.of(PRODUCTS - 1) - pair) // COUNT, pair // COUNT
        if in_blocks := read[-1].name == self.axis.name:
            ends: tuple[Axis, ...] = (axis(BLOCK, last.size // self.group), axis(last.name, self.group))
            value = substitute(value, {last.name: self._inside(last.name)})
            place: tuple[Index, ...] = (Index.of(BLOCK), read[-1])
        else:
            ends, place = (last,), (read[-1] - self.axis.name + self._inside(self.axis.name),)
        made = super().rewritten(
            (*axes[:-1], axis(PART, COUNT), *ends), value, (*read[:-1], ours, *place), self._reduced(reduces)
        )
        weights = self.found.weights
        known = next(o for o in self.old.operands if o.name == weights.buffer)
        changed = replace(known, shape=(*known.shape, Index.of(COUNT)), dtype=self.dtype)
        of_block = {self.axis.name: self._inside(self.axis.name)}
        places = tuple(index.substitute(of_block) for index in weights.indices)
        taken = Cast(Load(weights.buffer, (*places, theirs)), self.stage.dtype)
        buffer, *temporaries = made.temporaries
        copy, anchor, *rest = made.stages
        body = rewrite(anchor.body, lambda e: taken if e == weights else None)
        return replace(
            made,
            operands=tuple(changed if o is known else o for o in made.operands),
            temporaries=(self._apart(buffer) if in_blocks else buffer, *temporaries),
            stages=(copy, replace(anchor, body=body), *rest),
            transforms={weights.buffer: Parts(COUNT)},
        )

    def _inside(self, name: str) -> Index:
        """A place along the sum."""
        return Index.of(BLOCK) * self.group + name

    def _reduced(self, axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        """That of the sum as blocks and the elements of one; pairs last."""
        found: list[Axis] = []
        for a in axes:
            ours = a.name == self.axis.name
            found += (axis(BLOCK, a.size // self.group), axis(a.name, self.group)) if ours else (a,)
        return (*found, axis(PAIR, PRODUCTS))

    def _apart(self, buffer: Operand) -> Operand:
        """Rows that do not begin in the same few sets of a first cache."""
        *lead, blocks, length = buffer.shape
        room = spread_rows(static(blocks, BUFFER), self.group * self.dtype.size_bytes)
        return replace(buffer, shape=(*lead, Index.of(room), length))
