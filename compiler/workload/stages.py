"""Stages: a chain of fused nodes as a Workload, with the model's own names for buffers.

    anchor:    temporary[n, h, w, c] = sum over ... of x[n, h + kh, w + kw, ic] * weights[c, ic, kh, kw]
    epilogue:  y[n, h + 1, w + 1, c] = max(temporary[n, h, w, c] + bias[c], 0)

Axes are in the storage order of the output. Loads are in the storage order of what they read, halo offsets included;
constants are row-major.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from compiler.graph.halo import drop_guards
from compiler.graph.ir import TensorType
from compiler.graph.layout import Layout
from compiler.index import Index
from compiler.scalar import Expr, Load, map_indices, rewrite, substitute
from compiler.symbol import Axis, axis
from compiler.workload.chains import Chain, halves, map_axes, map_bodies
from compiler.workload.fusion import FusedNodes
from compiler.workload.ir import Operand, Result, Stage, Workload, stage_loads


@dataclass(frozen=True, slots=True)
class Storage:
    """How the values of a Graph are stored: `layouts` has every value but the constants, which are row-major."""

    types: Mapping[str, TensorType]
    layouts: Mapping[str, Layout]
    bounds: Mapping[str, int]
    """Magnitudes that constants do not pass, see `Operand`."""

    def operand(self, value: str) -> Operand:
        """The buffer of a value, under the value's name."""
        kind = self.types[value]
        layout = self.layouts.get(value)
        if layout is None:
            return Operand(value, kind.shape, kind.dtype, constant=True, bound=self.bounds.get(value))
        return Operand(value, layout.storage_shape(kind.shape), kind.dtype)

    def unused_name(self, number: str) -> str:
        """A name for a temporary; canonical names replace it."""
        name = f"t{number}"
        while name in self.types:
            name += "'"
        return name

    def lower(self, expr: Expr, ranges: Mapping[str, int]) -> Expr:
        """Loads by logical indices become loads by storage indices; guards that a halo replaces go."""

        def rule(e: Expr) -> Expr | None:
            if isinstance(e, Load) and e.buffer in self.layouts:
                return Load(e.buffer, self.layouts[e.buffer].indices(e.indices))
            return None

        return rewrite(drop_guards(expr, self.types, self.layouts, ranges), rule)


def build_workload(chain: Chain, storage: Storage) -> Workload:
    """The Workload of a chain: stages "anchor" and "epilogue", or "map" alone; numbered where there are more groups."""
    temporaries: list[Operand] = []
    stages: list[Stage] = []
    for place, member in enumerate(chain.members):
        last, number = member is chain.last, str(place) if len(chain.members) > 1 else ""
        made, own = _member_stages(member, storage, number, last=last)
        temporaries += own
        divided = chain.divided if last else {}
        stages += [_rename_axes(stage, chain.names[place], divided) for stage in made]
        if not last:
            temporaries.append(storage.operand(member.last.output))
    return _workload(storage, tuple(temporaries), tuple(stages), chain.last)


def _member_stages(
    member: FusedNodes, storage: Storage, number: str, *, last: bool
) -> tuple[list[Stage], list[Operand]]:
    """The stages of a group and the temporaries between them."""
    if member.anchor is None:
        return [_map_stage(f"map{number}", member, storage, _same)], []
    compute = member.anchor.compute
    layout = storage.layouts[member.last.output]
    axes = _stored_axes(compute.axes, layout)
    place = tuple(Index.of(a.name) for a in axes)
    anchor = Stage(
        name=f"anchor{number}",
        axes=axes,
        reduce_axes=compute.reduce_axes,
        reducer=compute.reducer,
        body=storage.lower(compute.body, compute.ranges),
        target=storage.unused_name(number),
        target_indices=place,
        dtype=compute.dtype,
    )
    if not last and member.anchor is member.last:
        logical = tuple(Index.of(a.name) for a in compute.axes)
        return [replace(anchor, target=member.last.output, target_indices=layout.indices(logical))], []
    temporary = Operand(anchor.target, tuple(a.extent for a in axes), compute.dtype)
    load = _load_temporary(member.anchor.output, temporary.name, layout)
    return [anchor, _map_stage(f"epilogue{number}", member, storage, load)], [temporary]


def _rename_axes(stage: Stage, names: Mapping[str, str], divided: Mapping[str, int]) -> Stage:
    """The stage with a chain's names of axes; those that are two there become two."""

    def renamed(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        found: list[Axis] = []
        for a in axes:
            if a.name in divided:
                sizes = (a.size // divided[a.name], divided[a.name])
                found += [axis(names[half], size) for half, size in zip(halves(a.name), sizes, strict=True)]
            else:
                found.append(Axis(names.get(a.name, a.name), a.extent))
        return tuple(found)

    axes, reduce_axes = renamed(stage.axes), renamed(stage.reduce_axes)
    bindings = {old: Index.of(new) for old, new in names.items()}
    for name, inner in divided.items():
        bindings[name] = Index.of(names[halves(name)[0]]) * inner + names[halves(name)[1]]
    ranges = {a.name: a.size for a in (*axes, *reduce_axes)} if divided else {}

    def simplified(index: Index) -> Index:
        return index.simplify(ranges) if divided else index

    return replace(
        stage.rewritten(
            lambda body: map_indices(substitute(body, bindings), simplified),
            lambda _, indices: tuple(simplified(index.substitute(bindings)) for index in indices),
        ),
        axes=axes,
        reduce_axes=reduce_axes,
    )


def _map_stage(name: str, fused: FusedNodes, storage: Storage, finish: Callable[[Expr], Expr]) -> Stage:
    """A stage without reduction that stores the group's outputs; an epilogue shares axes with its anchor by name."""
    axes = map_axes(fused)
    ranges = {a.name: a.size for a in axes}
    logical = tuple(Index.of(a.name) for a in axes)
    first, *rest = (
        Result(storage.lower(finish(body), ranges), value, storage.layouts[value].indices(logical))
        for value, body in map_bodies(fused).items()
    )
    return Stage(
        name=name,
        axes=_stored_axes(axes, storage.layouts[fused.last.output]),
        reduce_axes=(),
        reducer=None,
        body=first.body,
        target=first.target,
        target_indices=first.indices,
        dtype=fused.last.compute.dtype,
        also=tuple(rest),
    )


def _workload(
    storage: Storage, temporaries: tuple[Operand, ...], stages: tuple[Stage, ...], fused: FusedNodes
) -> Workload:
    own = {operand.name for operand in temporaries}
    read = dict.fromkeys(load.buffer for stage in stages for load in stage_loads(stage))
    operands = tuple(storage.operand(value) for value in read if value not in own)
    outputs = tuple(storage.operand(output.node.output) for output in fused.outputs)
    return Workload(operands, temporaries, outputs, stages)


def _stored_axes(axes: tuple[Axis, ...], layout: Layout) -> tuple[Axis, ...]:
    return tuple(axes[d] for d in layout.order)


def _load_temporary(value: str, temporary: str, layout: Layout) -> Callable[[Expr], Expr]:
    """Replaces loads of the anchor's value by loads of the temporary, whose dimensions are in the layout's order."""

    def rule(e: Expr) -> Expr | None:
        if not isinstance(e, Load) or e.buffer != value:
            return None
        return Load(temporary, tuple(e.indices[d] for d in layout.order))

    return lambda body: rewrite(body, rule)


def _same(body: Expr) -> Expr:
    return body
