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

    One batch is built while another is measured, on the cores that are left, and on the others too while nothing is
    timed there.
    """
    apart = cores_apart(threads)
    if apart is None:
        builder = LocalBuilder(0, options, guests=min(MOST_BUILDERS, usable_cores()))
        timing = None
    else:
        own, timing = min(MOST_BUILDERS, len(apart.building)), apart.timing
        guests = min(MOST_BUILDERS - own, len(timing))
        builder = LocalBuilder(own, options, apart.building, guests, timing)
    with closing(builder), closing(LocalRunner(device, options, builder, timing)) as runner:
        yield builder, runner
