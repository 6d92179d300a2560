"""Canonical form: Subgraphs that do the same work get equal Workloads, whatever model they came from.

In this order: axes of extent 1 go, guards and indices are simplified, axes that are read by quotient or block by block
are split in two, arguments of commutative operations are sorted, reduction axes follow the order in memory,
neighbouring axes are merged, results of a stage are sorted, axes, lookups and buffers are renamed.

    out[0, a2, a3, a1] = sum(i0, i1, i2) w[a1, i0, 0, 0] * x[0, a2, a3, i0]         a2, a3 < 56
    →  t0[0, s0, s1] = sum(r0) x0[0, s0, r0] * c0[s1, r0, 0, 0]                     s0 < 3136

Buffers may change their extents but never their bytes. Stages share axes by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import count

from compiler.index import ZERO, Index
from compiler.scalar import (
    Apply,
    Bound,
    Const,
    Expr,
    Guard,
    Load,
    Pick,
    expr_text,
    loads,
    map_indices,
    rename_buffers,
    rename_lookups,
    rewrite,
    substitute,
    walk,
)
from compiler.symbol import Axis, axis
from compiler.workload.forward_copies import forward_copies
from compiler.workload.generalise import generalise, sample_values
from compiler.workload.ir import Operand, Result, Stage, Workload, stage_loads
from compiler.workload.merge_axes import merge_axes
from compiler.workload.name_symbols import name_symbols
from compiler.workload.scale_last import scale_last
from compiler.workload.specialise import specialise
from compiler.workload.split_axes import split_axes
from compiler.workload.split_blocks import split_blocks

_COMMUTATIVE = frozenset({"add", "mul", "max", "min", "larger"})


@dataclass(frozen=True, slots=True)
class Canonical:
    """A canonical Workload, and for each of its buffers and symbols the name that it had before."""

    workload: Workload
    names: Mapping[str, str]
    symbols: Mapping[str, str] = field(default_factory=dict)


def canonicalise(workload: Workload) -> Canonical:
    """The canonical form; canonical Workloads come back equal.

    Of a Workload with symbols, the common form of what it becomes at several sizes.

    Raises:
        DiffersError: a Workload with symbols has no common form.
    """
    if workload.symbols:
        points = sample_values(workload.symbols)
        common: Canonical = generalise([_canonical(specialise(workload, p)) for p in points], points)
        named, symbols = name_symbols(replace(common.workload, symbols=workload.symbols))
        return replace(common, workload=named, symbols=symbols)
    return _canonical(workload)


def _canonical(workload: Workload) -> Canonical:
    workload = _with_stages(workload, [_simplify(drop_unit_axes(s)) for s in workload.stages])
    workload = forward_copies(split_axes(split_blocks(scale_last(workload))))
    ranks = _argument_ranks(workload)
    workload = _with_stages(workload, [_sort_arguments(s, ranks) for s in workload.stages])
    workload = _with_stages(workload, [_order_reduction(s, workload) for s in workload.stages])
    workload = _rename_axes(merge_axes(workload))
    workload = _rename_lookups(_with_stages(workload, [_order_results(s) for s in workload.stages]))
    return _rename_buffers(workload)


def drop_unit_axes(stage: Stage) -> Stage:
    """Remove axes of extent 1 and substitute 0; a stage has at least one axis, so that there is one to schedule."""
    unit = {name: ZERO for name, size in stage.ranges.items() if size == 1}
    axes = tuple(a for a in stage.axes if a.name not in unit) or stage.axes[-1:] or (axis("unit", 1),)
    reduce_axes = tuple(a for a in stage.reduce_axes if a.name not in unit)
    without = replace(
        stage, axes=axes, reduce_axes=reduce_axes, reducer=stage.reducer if reduce_axes else None
    )
    return _substituted(without, unit)


def _simplify(stage: Stage) -> Stage:
    ranges = stage.ranges

    def rule(e: Expr) -> Expr | None:
        if not isinstance(e, Guard):
            return None
        needed = tuple(b for b in e.bounds if not _always(b, ranges))
        if len(needed) == len(e.bounds):
            return None
        return Guard(needed, e.inside, e.outside) if needed else e.inside

    return stage.rewritten(lambda body: rewrite(map_indices(body, lambda i: i.simplify(ranges)), rule))


def _always(bound: Bound, ranges: Mapping[str, int]) -> bool:
    low, high = bound.index.bounds(ranges)
    return bound.low <= low and high < bound.high


def _argument_ranks(workload: Workload) -> dict[str, int]:
    ranks = {t.name: 1 for t in workload.temporaries}
    return ranks | {o.name: 3 if o.constant else 2 for o in workload.operands}


def _sort_arguments(stage: Stage, ranks: Mapping[str, int]) -> Stage:
    """Computed arguments first, then temporaries, inputs, constants and numbers; equal ones keep their order."""

    def rank(expr: Expr) -> int:
        match expr:
            case Const() | Pick():
                return 4
            case Load(buffer, _) | Guard(_, Load(buffer, _), _):
                return ranks.get(buffer, 1)
            case _:
                return 0

    def rule(e: Expr) -> Expr | None:
        if not isinstance(e, Apply) or e.op not in _COMMUTATIVE:
            return None
        ordered = tuple(sorted(e.args, key=rank))
        return None if ordered == e.args else Apply(e.op, ordered)

    return stage.rewritten(lambda body: rewrite(body, rule))


def _order_results(stage: Stage) -> Stage:
    """Results by size, then by the text of their bodies without the names of buffers; equal ones keep their order."""

    def key(result: Result) -> tuple[int, str]:
        names = {load.buffer: "" for load in loads(result.body)}
        return sum(1 for _ in walk(result.body)), expr_text(rename_buffers(result.body, names))

    return stage.with_results(tuple(sorted(stage.results, key=key)))


def _order_reduction(stage: Stage, workload: Workload) -> Stage:
    """Reduction axes in the order in which the first input that is read has them in memory."""
    constants = {o.name for o in workload.operands if o.constant}
    read = stage_loads(stage)
    main = next((load for load in read if load.buffer not in constants), read[0] if read else None)
    if main is None:
        return stage

    def place(a: Axis) -> int:
        return next((d for d, index in enumerate(main.indices) if a.name in index.names()), -1)

    return replace(stage, reduce_axes=tuple(sorted(stage.reduce_axes, key=place)))


def _rename_axes(workload: Workload) -> Workload:
    names: dict[str, str] = {}
    for prefix, group in (("s", "axes"), ("r", "reduce_axes")):
        own = dict.fromkeys(a.name for stage in workload.stages for a in getattr(stage, group))
        fresh = [name for name in own if name not in names]
        names |= {name: f"{prefix}{i}" for i, name in enumerate(fresh)}
    bindings = {old: Index.of(new) for old, new in names.items()}
    return _with_stages(workload, [_rename_stage_axes(s, bindings, names) for s in workload.stages])


def _rename_stage_axes(stage: Stage, bindings: Mapping[str, Index], names: Mapping[str, str]) -> Stage:
    return replace(
        _substituted(stage, bindings),
        axes=tuple(Axis(names[a.name], a.extent) for a in stage.axes),
        reduce_axes=tuple(Axis(names[a.name], a.extent) for a in stage.reduce_axes),
    )


def _substituted(stage: Stage, bindings: Mapping[str, Index]) -> Stage:
    return stage.rewritten(
        lambda body: substitute(body, bindings),
        lambda _, indices: tuple(i.substitute(bindings) for i in indices),
    )


def _rename_lookups(workload: Workload) -> Workload:
    """v0, v1, ... in order, also where one lookup was inlined twice."""
    names = (f"v{i}" for i in count())
    return _with_stages(
        workload, [s.rewritten(lambda body: rename_lookups(body, names)) for s in workload.stages]
    )


def _rename_buffers(workload: Workload) -> Canonical:
    read = list(dict.fromkeys(load.buffer for stage in workload.stages for load in stage_loads(stage)))
    by_name = workload.buffers
    operands = [by_name[n] for n in read if by_name[n] in workload.operands]
    inputs = [o for o in operands if not o.constant]
    constants = [o for o in operands if o.constant]
    written = [result.target for stage in workload.stages for result in stage.results]
    outputs = sorted(workload.outputs, key=lambda o: written.index(o.name))
    groups = (("x", inputs), ("c", constants), ("t", workload.temporaries), ("y", outputs))
    names = {o.name: f"{prefix}{i}" for prefix, group in groups for i, o in enumerate(group)}

    def renamed(group: tuple[Operand, ...] | list[Operand]) -> tuple[Operand, ...]:
        return tuple(replace(o, name=names[o.name]) for o in group)

    def renamed_stage(stage: Stage) -> Stage:
        results = (Result(rename_buffers(r.body, names), names[r.target], r.indices) for r in stage.results)
        return stage.with_results(tuple(results))

    canonical = replace(
        workload,
        operands=renamed([*inputs, *constants]),
        temporaries=renamed(workload.temporaries),
        outputs=renamed(outputs),
        stages=tuple(renamed_stage(s) for s in workload.stages),
    )
    return Canonical(canonical, {new: old for old, new in names.items()})


def _with_stages(workload: Workload, stages: list[Stage]) -> Workload:
    return replace(workload, stages=tuple(stages))
