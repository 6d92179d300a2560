"""Stages: a chain of fused nodes as a Workload, with the model's own names for buffers.

    anchor:    temporary[n, h, w, c] = sum over ... of x[n, h + kh, w + kw, ic] * weights[c, ic, kh, kw]
    epilogue:  y[n, h + 1, w + 1, c] = max(temporary[n, h, w, c] + bias[c], 0)

Axes are in the storage order of the output. Loads are in the storage order of what they read, halo offsets included;
constants are row-major.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from compiler.graph.halo import drop_guards
from compiler.graph.ir import Compute, TensorType
from compiler.graph.layout import Layout
from compiler.index import Index
from compiler.scalar import Expr, Load, rewrite, substitute
from compiler.symbol import Axis
from compiler.workload.chains import Chain, epilogue_body, member_compute
from compiler.workload.fusion import FusedNodes
from compiler.workload.ir import Operand, Stage, Workload, stage_loads


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
        renamed = {old: Index.of(new) for old, new in chain.names[place].items()}
        made, own = _member_stages(member, storage, number, last=last)
        temporaries += own
        stages += [_rename_axes(stage, renamed, chain.names[place]) for stage in made]
        if not last:
            temporaries.append(storage.operand(member.last.output))
    return _workload(storage, tuple(temporaries), tuple(stages), chain.last)


def _member_stages(
    member: FusedNodes, storage: Storage, number: str, *, last: bool
) -> tuple[list[Stage], list[Operand]]:
    """The stages of a group and the temporaries between them."""
    body = epilogue_body(member)
    if member.anchor is None:
        return [_map_stage(f"map{number}", member, body, storage)], []
    compute = member.anchor.compute
    layout = storage.layouts[member.last.output]
    axes = _stored_axes(compute, layout)
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
    loaded = _load_temporary(body, member.anchor.output, temporary.name, place)
    return [anchor, _map_stage(f"epilogue{number}", member, loaded, storage)], [temporary]


def _rename_axes(stage: Stage, bindings: Mapping[str, Index], names: Mapping[str, str]) -> Stage:
    return replace(
        stage,
        axes=tuple(Axis(names[a.name], a.extent) for a in stage.axes),
        reduce_axes=tuple(Axis(names[a.name], a.extent) for a in stage.reduce_axes),
        body=substitute(stage.body, bindings),
        target_indices=tuple(i.substitute(bindings) for i in stage.target_indices),
    )


def _map_stage(name: str, fused: FusedNodes, body: Expr, storage: Storage) -> Stage:
    """A stage without reduction that stores the group's output; an epilogue has the axes of its anchor."""
    compute = member_compute(fused)
    value = fused.last.output
    layout = storage.layouts[value]
    logical = tuple(Index.of(a.name) for a in compute.axes)
    return Stage(
        name=name,
        axes=_stored_axes(compute, layout),
        reduce_axes=(),
        reducer=None,
        body=storage.lower(body, {a.name: a.size for a in compute.axes}),
        target=value,
        target_indices=layout.indices(logical),
        dtype=fused.last.compute.dtype,
    )


def _workload(
    storage: Storage, temporaries: tuple[Operand, ...], stages: tuple[Stage, ...], fused: FusedNodes
) -> Workload:
    own = {operand.name for operand in temporaries}
    read = dict.fromkeys(load.buffer for stage in stages for load in stage_loads(stage))
    operands = tuple(storage.operand(value) for value in read if value not in own)
    return Workload(operands, temporaries, (storage.operand(fused.last.output),), stages)


def _stored_axes(compute: Compute, layout: Layout) -> tuple[Axis, ...]:
    return tuple(compute.axes[d] for d in layout.order)


def _load_temporary(body: Expr, value: str, temporary: str, place: tuple[Index, ...]) -> Expr:
    def rule(e: Expr) -> Expr | None:
        return Load(temporary, place) if isinstance(e, Load) and e.buffer == value else None

    return rewrite(body, rule)
