"""Specialise: a Workload with symbols as the Workload of given sizes.

symbols n0; x0[n0, 64]; for s0 < n0   →   x0[4, 64]; for s0 < 4
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from compiler.errors import InputError
from compiler.index import Index
from compiler.scalar import substitute
from compiler.symbol import Axis
from compiler.workload.ir import Operand, Stage, Workload


def nominal(workload: Workload) -> Workload:
    """The Workload with its symbols at their nominal values; a static one comes back as the same object."""
    return specialise(workload, {s.name: s.nominal for s in workload.symbols})


def specialise(workload: Workload, values: Mapping[str, int]) -> Workload:
    """Substitute all symbols; raises InputError on a value that is missing or outside its range.

    Stages, axes and buffers keep their names, so that a Schedule of one applies to the other. The result need not be
    canonical: an extent may become 1.
    """
    for symbol in workload.symbols:
        value = values.get(symbol.name)
        if value is None or not symbol.low <= value <= symbol.high:
            msg = f"{symbol.name} = {value} is outside {symbol.low}..{symbol.high}; give a value within"
            raise InputError(msg)
    if not workload.symbols:
        return workload
    return replace(
        with_sizes(workload, {s.name: Index.of(values[s.name]) for s in workload.symbols}), symbols=()
    )


def with_sizes(workload: Workload, bindings: Mapping[str, Index]) -> Workload:
    """Symbols replaced in all extents and indices; `symbols` stays for the caller to change."""

    def operands(group: tuple[Operand, ...]) -> tuple[Operand, ...]:
        return tuple(replace(o, shape=tuple(n.substitute(bindings) for n in o.shape)) for o in group)

    return replace(
        workload,
        operands=operands(workload.operands),
        temporaries=operands(workload.temporaries),
        outputs=operands(workload.outputs),
        stages=tuple(_stage(stage, bindings) for stage in workload.stages),
    )


def _stage(stage: Stage, bindings: Mapping[str, Index]) -> Stage:
    def axes(group: tuple[Axis, ...]) -> tuple[Axis, ...]:
        return tuple(Axis(a.name, a.extent.substitute(bindings)) for a in group)

    made = stage.rewritten(
        lambda body: substitute(body, bindings),
        lambda _, indices: tuple(i.substitute(bindings) for i in indices),
    )
    return replace(made, axes=axes(stage.axes), reduce_axes=axes(stage.reduce_axes))
