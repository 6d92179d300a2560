"""A Builder and a Runner on this machine that do not disturb each other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from compiler.target import usable_cores
from tuner.measure import MeasureOptions
from workers.cores import cores_apart
from workers.local import LocalBuilder, LocalRunner

MOST_BUILDERS = 8
"""Processes: more than a few are ahead of what measures one candidate at a time."""


@contextmanager
def local_workers(
    threads: int, device: str = "local", options: MeasureOptions | None = None
) -> Iterator[tuple[LocalBuilder, LocalRunner]]:
    """A Builder and a Runner for Tasks of so many threads, until the end of the context.

    They have cores of their own, so that one batch can be built while another is measured. Where there are none, what
    is being built stops while something is timed.
    """
    apart = cores_apart(threads)
    building, timing = (None, None) if apart is None else (apart.building, apart.timing)
    processes = min(MOST_BUILDERS, usable_cores() if building is None else len(building))
    with closing(LocalBuilder(processes, options, building)) as builder:
        paused = builder if apart is None else None
        with closing(LocalRunner(device, options, paused, timing)) as runner:
            yield builder, runner
