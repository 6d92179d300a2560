"""Stages: fused nodes as a Workload, with the model's own names for buffers.

    anchor:    temporary[n, h, w, c] = sum over ... of x[n, h + kh, w + kw, ic] * weights[c, ic, kh, kw]
    epilogue:  y[n, h + 1, w + 1, c] = max(temporary[n, h, w, c] + bias[c], 0)

Axes are in the storage order of the output. Loads are in the storage order of what they read, halo offsets included;
constants are row-major.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from compiler.graph.halo import drop_guards
from compiler.graph.ir import Compute, TensorType
from compiler.graph.layout import Layout
from compiler.index import Index
from compiler.scalar import Expr, Load, rewrite, substitute
from compiler.symbol import Axis
from compiler.workload.fusion import FusedNodes
from compiler.workload.ir import Operand, Stage, Workload, stage_loads


@dataclass(frozen=True, slots=True)
class Storage:
    """How the values of a Graph are stored: `layouts` has every value but the constants, which are row-major."""

    types: Mapping[str, TensorType]
    layouts: Mapping[str, Layout]

    def operand(self, value: str) -> Operand:
        """The buffer of a value, under the value's name."""
        kind = self.types[value]
        layout = self.layouts.get(value)
        if layout is None:
            return Operand(value, kind.shape, kind.dtype, constant=True)
        return Operand(value, layout.storage_shape(kind.shape), kind.dtype)

    def unused_name(self) -> str:
        """A name for a temporary; canonical names replace it."""
        name = "t"
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


def build_workload(fused: FusedNodes, storage: Storage) -> Workload:
    """The Workload of one group: stages "anchor" and "epilogue", or "map" alone."""
    if fused.anchor is None:
        return _workload(storage, (), (_map_stage("map", fused, fused.body, storage),), fused)
    compute = fused.anchor.compute
    axes = _stored_axes(compute, storage.layouts[fused.last.output])
    place = tuple(Index.of(a.name) for a in axes)
    temporary = Operand(storage.unused_name(), tuple(a.extent for a in axes), compute.dtype)
    anchor = Stage(
        name="anchor",
        axes=axes,
        reduce_axes=compute.reduce_axes,
        reducer=compute.reducer,
        body=storage.lower(compute.body, compute.ranges),
        target=temporary.name,
        target_indices=place,
        dtype=compute.dtype,
    )
    renamed = substitute(fused.body, _axis_names(fused.last.compute, compute))
    body = _load_temporary(renamed, fused.anchor.output, temporary.name, place)
    epilogue = _map_stage("epilogue", fused, body, storage)
    return _workload(storage, (temporary,), (anchor, epilogue), fused)


def _map_stage(name: str, fused: FusedNodes, body: Expr, storage: Storage) -> Stage:
    """A stage without reduction that stores the group's output; an epilogue has the axes of its anchor."""
    compute = (fused.anchor or fused.last).compute
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


def _axis_names(source: Compute, target: Compute) -> dict[str, Index]:
    return {a.name: Index.of(b.name) for a, b in zip(source.axes, target.axes, strict=True)}


def _load_temporary(body: Expr, value: str, temporary: str, place: tuple[Index, ...]) -> Expr:
    def rule(e: Expr) -> Expr | None:
        return Load(temporary, place) if isinstance(e, Load) and e.buffer == value else None

    return rewrite(body, rule)
