"""Forward copies: what reads each element of a copy once reads it where it was copied from.

    t[c, h, w] = x[h, w, c];  m[h, w] = sum(c) t[c, h, w];  y[h, w, c] = t[c, h, w] - m[h, w]
    →  m[h, w] = sum(c) x[h, w, c];  y[h, w, c] = x[h, w, c] - m[h, w]

So a normalisation over channels reads them side by side where they lie so, whatever the model says of their order. A
product that reads elements again and again keeps its copy: it may be there for that.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.scalar import Expr, Load, rewrite, substitute
from compiler.workload.ir import Stage, Workload, stage_loads


def forward_copies(workload: Workload) -> Workload:
    """Remove such stages; the same object comes back where there is none."""
    while (copy := next((s for s in workload.stages if _is_forwarded(workload, s)), None)) is not None:
        workload = _without(workload, copy)
    return workload


def _is_forwarded(workload: Workload, stage: Stage) -> bool:
    if stage.reducer is not None or stage.also or not isinstance(stage.body, Load):
        return False
    temporaries, source = {t.name: t for t in workload.temporaries}, workload.buffers[stage.body.buffer]
    if stage.target not in temporaries or stage.dtype is not source.dtype or source.elements != stage.points:
        return False
    if any(not isinstance(atom, str) for index in stage.body.indices for atom, _ in index.terms):
        return False  # it repeats, or is looked up
    names = [index.name for index in stage.target_indices if index.constant is None]
    if None in names or len(set(names)) < len(names) or len(names) < len(stage.axes):
        return False
    readers = [s for s in workload.stages if any(r.buffer == stage.target for r in stage_loads(s))]
    return all(s.points <= temporaries[stage.target].elements for s in readers)


def _without(workload: Workload, copy: Stage) -> Workload:
    """The readers read the source; the copy's own stage and its temporary are gone."""

    def rule(e: Expr) -> Expr | None:
        if not isinstance(e, Load) or e.buffer != copy.target:
            return None
        places = zip(copy.target_indices, e.indices, strict=True)
        return substitute(copy.body, {str(own.name): at for own, at in places if own.constant is None})

    stages = (s for s in workload.stages if s is not copy)
    return replace(
        workload,
        stages=tuple(s.rewritten(lambda body: rewrite(body, rule)) for s in stages),
        temporaries=tuple(t for t in workload.temporaries if t.name != copy.target),
    )
