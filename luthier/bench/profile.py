"""A model's kernels against what the machine can do, both measured in the same run.

    bound = max(operations / multiply-add rate, constant bytes / rate of the level that holds all constants of the model
                                                + other bytes, level by level, at the rate of each)

Constants are read once per run: between two runs all others have passed through the caches. Of the other bytes (inputs,
outputs and scratch buffers of the kernel), which the kernel before has just written or the next is about to read, each
level holds as many as fit, the nearest first. Operations are those of the definition: a kernel that needs fewer
multiplications may pass its bound.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from statistics import median
from typing import Any

from compiler.runtime.profile import KernelTime, Profile, Profiler
from compiler.symbol import size_at
from compiler.workload.program import Program
from luthier.bench.ceilings import Ceilings, Probes
from luthier.bench.subject import Subject
from luthier.build import BuildOptions
from luthier.files import check_writable, write_atomically

_ROUNDS = 5
_PROBE_S = 0.003


def profile(
    path: Path, options: BuildOptions, seconds: float, trace_to: Path | None = None
) -> dict[str, Any]:
    """The document of `luthier bench --profile`; `trace_to`: a file for the times of all runs.

    Raises:
        LuthierError: the model or the artifact cannot be read, or the trace cannot be written.
    """
    if trace_to is not None:
        check_writable(trace_to)
    with closing(Subject(path, options)) as subject:
        module = subject.module
        taken, ceilings = _measure(subject, seconds)
    if trace_to is not None:
        write_atomically(trace_to, json.dumps(trace(taken)).encode())
    operations = [None] * len(taken.kernels) if subject.program is None else _operations(subject.program)
    place = {"model": path.stem, "target": module.target.name, "threads": module.threads}
    return {**place, **_document(taken, ceilings, operations)}


def _measure(subject: Subject, seconds: float) -> tuple[Profile, Ceilings]:
    """The machine's ceilings and the model in turns."""
    module = subject.module
    with ExitStack() as stack:
        profiler = stack.enter_context(closing(Profiler(module.image, subject.inputs)))
        probes = stack.enter_context(closing(Probes(module.target, module.threads)))
        runs = {name: max(1, int(_PROBE_S / probe(1))) for name, probe in probes.samplers.items()}
        samples: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(_ROUNDS):
            for name, probe in probes.samplers.items():
                samples[name].append(probe(runs[name]))
            profiler.sample(seconds / _ROUNDS)
        return profiler.profile(), probes.ceilings({name: median(taken) for name, taken in samples.items()})


def trace(profile: Profile) -> dict[str, Any]:
    """All runs in Chrome's trace format (chrome://tracing, Perfetto): a row per share of the phases, microseconds."""
    start = int(profile.stamps_ns.min())
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "thread_name", "pid": 0, "tid": share, "args": {"name": f"share {share}"}}
        for share in range(profile.stamps_ns.shape[1])
    ]
    for run, shares in enumerate(profile.stamps_ns):
        for share, phases in enumerate(shares):
            for name, (begin, end) in zip(profile.phases, phases, strict=True):
                place = {"ts": (int(begin) - start) / 1e3, "dur": (int(end) - int(begin)) / 1e3}
                events.append(
                    {"ph": "X", "name": name, "pid": 0, "tid": share, **place, "args": {"run": run}}
                )
    return {"traceEvents": events, "displayTimeUnit": "ns"}


def _operations(program: Program) -> list[int | None]:
    """Of each Subgraph; None where they depend on symbols."""
    return [None if s.symbols else size_at(s.workload.operations, {}) for s in program.subgraphs]


def _document(profile: Profile, ceilings: Ceilings, operations: Sequence[int | None]) -> dict[str, Any]:
    return {
        "runs": len(profile.samples_s),
        "median_us": profile.median_s * 1e6,
        "between_us": profile.between_s * 1e6,
        "ceilings": {
            "gflops": ceilings.rates["multiply_add"] / 1e9,
            "gbytes_per_s": {level: ceilings.rates[level] / 1e9 for level in ceilings.capacities},
        },
        "kernels": [
            _kernel(kernel, count, profile, ceilings)
            for kernel, count in zip(profile.kernels, operations, strict=True)
        ],
    }


def _kernel(
    kernel: KernelTime, operations: int | None, profile: Profile, ceilings: Ceilings
) -> dict[str, Any]:
    seconds, bytes_ = max(kernel.median_s, 1e-9), kernel.constant_bytes + kernel.value_bytes
    constants = ceilings.rates[ceilings.level(profile.constant_bytes)]
    moved = kernel.constant_bytes / constants + _through_levels_s(kernel.value_bytes, ceilings)
    bound = max(moved, (operations or 0) / ceilings.rates["multiply_add"])
    return {
        "name": kernel.name,
        "symbol": kernel.kernel,
        "median_us": kernel.median_s * 1e6,
        "share": kernel.median_s / profile.median_s,
        "busy": kernel.busy,
        "gflops": None if operations is None else operations / seconds / 1e9,
        "gbytes_per_s": bytes_ / seconds / 1e9,
        "roofline_fraction": None if operations is None else bound / seconds,
        "bound_by": "memory" if bound == moved else "arithmetic",
    }


def _through_levels_s(size_bytes: int, ceilings: Ceilings) -> float:
    """Seconds to move so many bytes, of which each level holds what does not fit into the ones before."""
    seconds, below = 0.0, 0.0
    for level, capacity in ceilings.capacities.items():
        seconds += max(0.0, min(size_bytes, capacity) - below) / ceilings.rates[level]
        below = max(below, capacity)
    return seconds
