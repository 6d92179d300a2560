"""The Steps that decide the path to a Workload's anchor: many Schedules differ off that path only, and share a form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from compiler.schedule.steps import Algorithm, ComputeAt, Inline, Reverse, RFactor, Step


def path_steps(
    anchor: str, steps: Sequence[Step], readers: Callable[[str], Iterable[str]]
) -> tuple[tuple[Step, ...], int]:
    """The Steps on the path, and how many stages off it are attached to others.

    On the path are the anchor, the stages that it is attached to, and those that say which region of it they read.
    `readers`: names of the stages that read what a stage stores.
    """
    attached = {step.stage: step.consumer for step in steps if isinstance(step, ComputeAt)}
    factored = {f"{step.stage}.{step.loop}": step.stage for step in steps if isinstance(step, RFactor)}
    path: set[str] = set()
    new = [anchor, *factored, *factored.values()]
    while new:
        name = new.pop()
        if name in path:
            continue
        path.add(name)
        if name in attached:
            new += [attached[name], *(readers(name) if name not in factored else (factored[name],))]
    # A loop moves as far backwards as it does forwards.
    kept = tuple(
        s
        for s in steps
        if isinstance(s, Algorithm | Inline) or (s.stage in path and not isinstance(s, Reverse))
    )
    return kept, len(attached.keys() - path)
