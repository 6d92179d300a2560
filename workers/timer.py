"""The measurement protocol, inside the child (version `tuner.task.PROTOCOL`).

For each candidate of a batch: run once on guarded memory and verify, place the operands as the runtime does, find how
many runs last `min_sample_ms` (these are the warm-up), take `samples` samples of that many runs inside native code,
and verify again what the last timed run left. One result is answered per candidate as soon as it is known; the first
that fails is the last that this process measures.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable
from contextlib import closing

from compiler.codegen.kernel import Kernel
from compiler.errors import LuthierError
from compiler.runtime.loader import LoadedKernel
from tuner.measure import FailureKind, Measured, MeasureFailed, MeasureOptions, MeasureResult, result_json
from tuner.task import Task
from workers import sandbox
from workers.case import Case, make_case, reference_bytes
from workers.frames import Frame
from workers.verify import check, place
from workers.wire import kernels_from_json, options_from_json, task_from_json

HOPELESS = 3.0
"""A candidate whose first sample is so many times slower than the best gets no further samples."""

_MAX_RUNS = 1 << 24
_TIMING_SHARE = 0.5


def serve(request: Frame, reply: Callable[[Frame], None]) -> None:
    """Answer one batch: `prepared` with the reference, then a `result` per candidate."""
    header = request.header
    task, options = task_from_json(header["task"]), options_from_json(header["options"])
    count = len(header["kernels"])
    kernels = kernels_from_json(header["kernels"], request.blobs[:count])
    known = dict(zip(header["reference"], request.blobs[count:], strict=True))
    case = make_case(task.workload, options.seed, known)
    entered = sandbox.enter(header["limits"])
    values = reference_bytes(case)
    reply(Frame({"event": "prepared", "reference": list(values), **entered}, tuple(values.values())))
    del values, known, request
    gc.disable()
    best_s: float | None = header["best_s"]
    for kernel in kernels:
        result = measure(task, case, kernel, options, best_s)
        reply(Frame({"event": "result", "result": result_json(result)}))
        if isinstance(result, MeasureFailed):
            return
        best_s = min(result.median_s, best_s or math.inf)


def measure(
    task: Task, case: Case, kernel: Kernel, options: MeasureOptions, best_s: float | None
) -> MeasureResult:
    """Verify and time one candidate; `best_s`: seconds of the best one known, None at first."""
    try:
        with closing(LoadedKernel(kernel, task.threads)) as loaded:
            return _measure_loaded(loaded, task, case, kernel, options, best_s)
    except MemoryError:
        return MeasureFailed(FailureKind.OUT_OF_MEMORY, f"passed {options.memory_bytes >> 20} MiB")
    except (LuthierError, KeyError, ValueError, RuntimeError) as error:
        return MeasureFailed(FailureKind.BUILD, f"the kernel cannot be loaded: {error}")


def _measure_loaded(
    loaded: LoadedKernel,
    task: Task,
    case: Case,
    kernel: Kernel,
    options: MeasureOptions,
    best_s: float | None,
) -> MeasureResult:
    start = time.perf_counter()
    with place(kernel, case, aligned=False) as arguments:
        loaded.run(arguments.pointers)
        error = check(arguments, case, task.error_budget)
    if isinstance(error, MeasureFailed):
        return error
    verified = time.perf_counter()
    with place(kernel, case, aligned=True) as arguments:
        pointers = arguments.pointers
        samples = sample(lambda runs: loaded.time_ns(pointers, runs), options, best_s)
        again = check(arguments, case, task.error_budget)
    if isinstance(again, MeasureFailed):
        return MeasureFailed(again.kind, f"{again.message}, but only after many runs")
    end = time.perf_counter()
    return Measured(samples, max(error, again), verify_s=verified - start, measure_s=end - verified)


def sample(time_ns: Callable[[int], int], options: MeasureOptions, best_s: float | None) -> tuple[float, ...]:
    """Seconds per run, one figure per sample; `time_ns(runs)` is the total of that many runs."""
    sample_ns = options.min_sample_ms * 1e6
    runs, spent = 1, time_ns(1)
    # The first run meets cold caches and a sleeping team; where it took long, that no longer matters.
    total = time_ns(1) if spent < 10 * sample_ns else spent
    spent += total
    while total < sample_ns / 2 and runs < _MAX_RUNS:
        runs = _enough(sample_ns, runs, total, most=16 * runs)
        total = time_ns(runs)
        spent += total
    runs = _enough(sample_ns, runs, total, most=_MAX_RUNS)
    taken: list[float] = []
    while len(taken) < options.samples:
        total = time_ns(runs)
        spent += total
        taken.append(total / runs / 1e9)
        hopeless = best_s is not None and taken[0] > HOPELESS * best_s
        if hopeless or spent > _TIMING_SHARE * options.timeout_s * 1e9:
            break
    return tuple(taken)


def _enough(sample_ns: float, runs: int, total_ns: int, most: int) -> int:
    """How many runs last as long as a sample, from what `runs` of them took."""
    return min(most, max(1, math.ceil(sample_ns * runs / max(total_ns, 1))), _MAX_RUNS)
