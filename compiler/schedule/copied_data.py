"""Copied data: what an instruction broadcasts is brought into its type and order first, in a phase of its own.

    t0[m, n] = sum(k < 5) i32(x[m, k] if guarded else 3) * i32(w[k, n])
    →  data[m, k] = i16(x[m, k] if guarded else 3) if k < 5 else 0       k < 6: a multiple of the group
       t0[m, n]   = sum(k < 6) i32(data[m, k]) * i32(w[k, n])            w is packed with zeros behind its end

Padding, zero extension and a change of layout are done once per element instead of once per use. What a step passes
over is not copied.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from compiler.dtype import DType
from compiler.errors import ScheduleError
from compiler.index import Index
from compiler.scalar import Bound, Cast, Const, Expr, Guard, Load, loads, rewrite, walk
from compiler.schedule.contraction import Contraction, find_contraction, fits, group_axis, group_dimension
from compiler.schedule.lines import in_lines
from compiler.schedule.planes import in_planes
from compiler.symbol import Axis, axis, static
from compiler.workload.ir import Operand, Stage, Workload

STAGE = "data"
BUFFER = "data_buffer"
TYPES = (DType.U8, DType.I8, DType.I16, DType.BF16)
"""The first parameter is a place in it; new types go to the end."""


LINES = 1
"""A form: windows of all lines are the rows of one matrix (compiler/schedule/lines.py)."""


def copied_data(workload: Workload, parameters: tuple[int, ...]) -> Workload:
    """The rewritten Workload; `parameters`: (place in TYPES, elements per group), or those and LINES."""
    known = len(parameters) in (2, 3) and parameters[2:] in ((), (LINES,))
    if not known or not 0 <= parameters[0] < len(TYPES) or parameters[1] < 1:
        msg = (
            f"copied_data needs an element type and a group, and perhaps {LINES} for lines, not {parameters}"
        )
        raise ScheduleError(msg)
    dtype, group, *form = TYPES[parameters[0]], *parameters[1:]
    stage = workload.stages[0]
    found = find_contraction(workload, stage)
    buffers = workload.buffers
    grouped = None if found is None else group_axis(stage, found, group)
    if found is None or grouped is None or not fits(found.data, dtype, lambda name: buffers[name].dtype):
        msg = f"copied_data needs a sum of products with a constant, of data that {dtype.value} holds"
        raise ScheduleError(msg)
    made = Copying(workload, stage, found, grouped, dtype, group).workload()
    return in_lines(in_planes(made)) if form else made


@dataclass(frozen=True, slots=True)
class _Span:
    """Places of a dimension: the first, how many, and from each to the next."""

    low: int
    extent: Index
    step: int


@dataclass(frozen=True)
class Copying:
    """The rewriting. `axis`: that of the groups; `dtype`: of the copy, whose lines are multiples of `whole`."""

    old: Workload
    stage: Stage
    found: Contraction
    axis: Axis
    dtype: DType
    group: int
    whole: int = 1

    def workload(self) -> Workload:
        """The rewritten Workload."""
        whole = axis(self.axis.name, -(-self.axis.size // self.group) * self.group)
        load = loads(self.found.data)[0]
        ranges = self._ranges()
        order = self._order(load)
        spans = [self._span(load.indices[d], ranges) for d in order]
        if self.whole > 1:
            length = static(spans[-1].extent, BUFFER)
            spans[-1] = replace(spans[-1], extent=Index.of(-(-length // self.whole) * self.whole))
        axes = tuple(Axis(f"e{i}", span.extent) for i, span in enumerate(spans))
        places = zip(order, axes, spans, strict=True)
        origin = {d: Index.of(a.name) * span.step + span.low for d, a, span in places}
        read = tuple(
            _over(load.indices[d] - span.low, span.step) for d, span in zip(order, spans, strict=True)
        )
        reduces = tuple(whole if a.name == whole.name else a for a in self.stage.reduce_axes)
        return self.rewritten(axes, self._body(load, origin, axes), read, reduces)

    def rewritten(
        self, axes: tuple[Axis, ...], value: Expr, read: tuple[Index, ...], reduces: tuple[Axis, ...]
    ) -> Workload:
        """`value`: of the copy at its `axes`; `read`: where the sum over `reduces` finds it."""
        at = tuple(Index.of(a.name) for a in axes)
        buffer = Operand(BUFFER, tuple(a.extent for a in axes), self.dtype)
        copy = Stage(STAGE, axes, (), None, value, BUFFER, at, self.dtype)
        data = Cast(Load(BUFFER, read), self.stage.dtype)
        product = rewrite(self.stage.body, lambda e: data if e is self.found.data else None)
        anchor = replace(self.stage, body=product, reduce_axes=reduces)
        return replace(
            self.old,
            temporaries=(buffer, *self.old.temporaries),
            stages=(copy, anchor, *self.old.stages[1:]),
        )

    def _ranges(self) -> dict[str, int]:
        """The known extents of the axes, that of the group rounded up."""
        axes = (*self.stage.axes, *self.stage.reduce_axes)
        known = {a.name: a.size for a in axes if a.extent.constant is not None}
        return {**known, self.axis.name: -(-self.axis.size // self.group) * self.group}

    def _span(self, index: Index, ranges: dict[str, int]) -> _Span:
        """Which places of a dimension are read; an axis of unknown extent must stand there by itself."""
        if index.names() <= ranges.keys():
            low, high = index.bounds(ranges)
            step = max(1, index.terms[0][1]) if len(index.terms) == 1 and index.is_affine() else 1
            return _Span(low, Index.of((high - low) // step + 1), step)
        for a in self.stage.axes:
            if index.name == a.name:
                return _Span(0, a.extent, 1)
        msg = f"copied_data cannot tell how far {index} reaches; give its symbols values"
        raise ScheduleError(msg)

    def _order(self, load: Load) -> list[int]:
        """Dimensions that the data moves along, that of the group last."""
        last = group_dimension(load, self.axis.name)
        return [d for d, i in enumerate(load.indices) if i.terms and d != last] + [last]

    def _body(self, load: Load, origin: dict[int, Index], axes: tuple[Axis, ...]) -> Expr:
        """One element of the copy; 0 behind the end of the data, where only padded weights meet it."""
        indices = tuple(origin.get(d, index) for d, index in enumerate(load.indices))
        places = {load.indices[d]: index for d, index in origin.items()}

        def rule(e: Expr) -> Expr | None:
            match e:
                case Load():
                    return Load(e.buffer, indices)
                case Guard(bounds, inside, outside):
                    return Guard(tuple(_moved(b, places) for b in bounds), inside, outside)
                case _:
                    return None

        inner = self.found.data.value if isinstance(self.found.data, Cast) else self.found.data
        value = self.converted(rewrite(inner, rule))
        shape = self.old.buffers[load.buffer].shape
        known = {index.terms for e in _guards(value) for index in (b.index for b in e.bounds)}
        ranges = {a.name: a.size for a in axes if a.extent.constant is not None}
        beyond = tuple(
            Bound(index, 0, static(extent, load.buffer))
            for index, extent in zip(indices, shape, strict=True)
            if index.terms not in known
            and index.terms
            and index.names() <= ranges.keys()
            and index.bounds(ranges)[1] >= static(extent, load.buffer)
        )
        return Guard(beyond, value, Const(0, self.dtype)) if beyond else value

    def converted(self, value: Expr) -> Expr:
        """An element in the type of the copy."""
        return Cast(value, self.dtype)


def _over(index: Index, step: int) -> Index:
    """An index by steps, of which it is a multiple."""
    return index if step == 1 else index // step


def _guards(expr: Expr) -> list[Guard]:
    return [e for e in walk(expr) if isinstance(e, Guard)]


def _moved(bound: Bound, places: dict[Index, Index]) -> Bound:
    """The same test on the copy's own axes."""
    for index, place in places.items():
        shift = (bound.index - index).constant
        if shift is not None:
            return Bound(place + shift, bound.low, bound.high)
    msg = f"copied_data cannot follow the test of {bound.index}"
    raise ScheduleError(msg)
