"""How long a candidate takes to build: every Task of a network, its default and some random schedules."""

from __future__ import annotations

import random
import tempfile
import time
from statistics import median
from typing import Any

from compiler.pipeline import build_kernel, load_graph, lower
from compiler.space.rules import build_space
from compiler.target import Target
from examples.networks import filled

NETWORK = "resnet50"
RANDOM_CANDIDATES = 2


def build_times(target: Target, threads: int) -> dict[str, Any]:
    """The median over all candidates in milliseconds, and the slowest Task's name and time."""
    with tempfile.TemporaryDirectory(prefix="luthier-bench-") as folder:
        program = lower(load_graph(filled(NETWORK, folder)))
    subgraphs = {s.workload.digest: s for s in program.subgraphs}
    times: list[tuple[float, str]] = []
    for subgraph in subgraphs.values():
        space = build_space(subgraph.workload, target, threads)
        rng = random.Random(subgraph.workload.digest)
        for choice in [space.default, *(space.sample(rng) for _ in range(RANDOM_CANDIDATES))]:
            start = time.perf_counter()
            build_kernel(subgraph.workload, space.schedule(choice), target)
            times.append(((time.perf_counter() - start) * 1e3, subgraph.name))
    slowest_ms, slowest = max(times)
    return {
        "network": NETWORK,
        "candidates": len(times),
        "median_ms": median(ms for ms, _ in times),
        "slowest_ms": slowest_ms,
        "slowest": slowest,
    }
