"""Scale last: a factor that a sum does not run over multiplies the sum instead of its terms.

p[i, j] = e[i, j] * c[i];  t[i, l] = sum(j) p[i, j] * v[j, l];  y[i, l] = t[i, l]
→  t[i, l] = sum(j) e[i, j] * v[j, l];  y[i, l] = t[i, l] * c[i]
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from compiler.index import Index
from compiler.scalar import Apply, Expr, Load, apply, rewrite, substitute
from compiler.workload.ir import Stage, Workload, stage_loads


def scale_last(workload: Workload) -> Workload:
    """Move one such factor; the same object comes back where there is none."""
    for stage in workload.stages:
        found = _factors(workload, stage)
        if found is not None:
            return _moved(workload, found)
    return workload


@dataclass(frozen=True, slots=True)
class _Found:
    """`scaled` stores `kept * factor`, which `total` reads at `read` and sums; `finish` reads the sum."""

    scaled: Stage
    kept: Load
    factor: Load
    total: Stage
    read: Load
    finish: Stage


def _factors(workload: Workload, scaled: Stage) -> _Found | None:
    temporaries = {t.name for t in workload.temporaries}
    match scaled.body:
        case Apply("mul", (Load() as a, Load() as b)) if scaled.reducer is None and not scaled.also:
            pass
        case _:
            return None
    readers = [s for s in workload.stages if any(r.buffer == scaled.target for r in stage_loads(s))]
    if scaled.target not in temporaries or len(readers) != 1 or not _plain(scaled):
        return None
    (total,) = readers
    reads = [load for load in stage_loads(total) if load.buffer == scaled.target]
    after = [s for s in workload.stages if any(r.buffer == total.target for r in stage_loads(s))]
    product = isinstance(total.body, Apply) and total.body.op == "mul" and len(reads) == 1
    if total.reducer != "sum" or not product or len(after) != 1 or after[0].reducer is not None:
        return None
    if not scaled.dtype.is_float or not scaled.dtype is total.dtype is after[0].dtype:
        return None
    bound = _bindings(scaled, reads[0])
    reduced = {a.name for a in total.reduce_axes}
    for kept, factor in ((a, b), (b, a)):
        names = {n for i in factor.indices for n in i.substitute(bound).names()}
        if not names & reduced and factor.buffer in temporaries:
            return _Found(scaled, kept, factor, total, reads[0], after[0])
    return None


def _moved(workload: Workload, found: _Found) -> Workload:
    bound = _bindings(found.scaled, found.read)

    def sum_kept(e: Expr) -> Expr | None:
        return substitute(found.kept, bound) if e == found.read else None

    def scale_sum(e: Expr) -> Expr | None:
        if not isinstance(e, Load) or e.buffer != found.total.target:
            return None
        place = {
            i.name: at
            for i, at in zip(found.total.target_indices, e.indices, strict=True)
            if i.name is not None
        }
        return apply("mul", e, substitute(substitute(found.factor, bound), place))

    changed = {
        id(found.total): found.total.rewritten(lambda body: rewrite(body, sum_kept)),
        id(found.finish): found.finish.rewritten(lambda body: rewrite(body, scale_sum)),
    }
    stages = tuple(changed.get(id(s), s) for s in workload.stages if s is not found.scaled)
    temporaries = tuple(t for t in workload.temporaries if t.name != found.scaled.target)
    return replace(workload, stages=stages, temporaries=temporaries)


def _plain(stage: Stage) -> bool:
    return {Index.of(a.name) for a in stage.axes if a.size > 1} <= set(stage.target_indices)


def _bindings(stage: Stage, read: Load) -> dict[str, Index]:
    """Axes of a stage where its result is read."""
    bound = dict.fromkeys((a.name for a in stage.axes), Index.of(0))
    pairs = zip(stage.target_indices, read.indices, strict=True)
    return bound | {i.name: at for i, at in pairs if i.name is not None}
