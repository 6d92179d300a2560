"""Forms: what Schedules have in common that differ in the factors of their Splits only."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.schedule.steps import RFactor, Split, Step

Form = tuple[object, ...]


def form_of(steps: Sequence[Step]) -> tuple[Form, list[int]]:
    """The Steps without the factors of their Splits, and those factors in order."""
    form: list[object] = []
    factors = []
    for step in steps:
        if type(step) is Split:
            form.append((step.stage, step.loop))
            factors.append(step.factor)
        else:
            form.append(step)
    return tuple(form), factors


def anchor_after(anchor: str, steps: Sequence[Step]) -> str:
    """The stage that does the anchor's work: its partial results where the Steps make some."""
    for step in steps:
        if isinstance(step, RFactor) and step.stage == anchor:
            anchor = f"{step.stage}.{step.loop}"
    return anchor
