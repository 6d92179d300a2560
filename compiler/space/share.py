"""Sharing out: the Steps that make loops one and hand its iterations to the threads."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.loop.ir import LoopKind
from compiler.schedule.steps import Bind, Fuse, Step


def share(stage: str, loops: Sequence[str]) -> list[Step]:
    """Loops of a stage, from its outermost on, become one, which is shared out."""
    steps: list[Step] = []
    name = loops[0]
    for following in loops[1:]:
        steps.append(Fuse(stage, name, following))
        name = f"{name}*{following}"
    return [*steps, Bind(stage, name, LoopKind.PARALLEL)]
