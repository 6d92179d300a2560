"""The measurement protocol, inside the child (version `tuner.task.PROTOCOL`).

For each candidate of a batch: run once on guarded memory and verify, move the operands to where the runtime places
them, find how many runs last `min_sample_ms` (these are the warm-up), take `samples` samples of that many runs inside
native code, and verify again what the last timed run left. One result is answered per candidate as soon as it is known;
the first that fails is the last that this process measures. Batches follow each other, of any Task for which the
process was given enough threads.

A comparison verifies every candidate the same way and then times all of them in turns, a sample of each per round,
until `tuner.pairs` can tell them apart. `verified` is answered per candidate, and all results together at the end, or
the place and the result of the first that failed.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace

from compiler.codegen.kernel import Kernel
from compiler.errors import LuthierError
from compiler.runtime.loader import LoadedKernel
from tuner.measure import FailureKind, Measured, MeasureFailed, MeasureOptions, MeasureResult, result_json
from tuner.task import Task
from workers import sandbox
from workers.case import Case, Cases
from workers.frames import Frame
from workers.sampling import sample
from workers.turns import Contender, WrongError, take_turns
from workers.verify import check, place
from workers.wire import kernels_from_json, options_from_json, task_from_json

_CASES = Cases()
_UNLOADABLE = (MemoryError, LuthierError, KeyError, ValueError, RuntimeError)


def serve(request: Frame, reply: Callable[[Frame], None]) -> None:
    """Answer one batch: `prepared`, then a `result` per candidate; the first one brings `limits`."""
    header = request.header
    task, options = task_from_json(header["task"]), options_from_json(header["options"])
    kernels = kernels_from_json(header["kernels"], request.blobs)
    case = _CASES.case(task.workload, options.seed)
    if "limits" in header:
        entered = sandbox.enter(header["limits"])
        gc.disable()
        gc.freeze()
    else:
        entered = {}
        gc.collect()
    sandbox.allow_cpu(header["cpu_s"])
    reply(Frame({"event": "prepared", "usage": sandbox.used(), **entered}))
    if header["in_turns"]:
        reply(_compared(task, case, kernels, options, lambda: reply(Frame({"event": "verified"}))))
        return
    best_s: float | None = header["best_s"] if options.stop_early else None
    for kernel in kernels:
        case.trim()
        result = measure(task, case, kernel, options, best_s)
        reply(Frame({"event": "result", "result": result_json(result)}))
        if isinstance(result, MeasureFailed):
            return
        if options.stop_early:
            best_s = min(result.median_s, best_s or math.inf)


def measure(
    task: Task, case: Case, kernel: Kernel, options: MeasureOptions, best_s: float | None
) -> MeasureResult:
    """Verify and time one candidate; `best_s`: seconds of the best one known, None at first."""
    start = time.perf_counter()
    try:
        with closing(LoadedKernel(kernel, task.threads)) as loaded:
            result = _measure_loaded(loaded, task, case, kernel, options, best_s)
            if isinstance(result, Measured):
                verify_s = time.perf_counter() - start - result.measure_s
                return replace(result, verify_s=verify_s)
            return result
    except _UNLOADABLE as error:
        return _unloadable(error, options)


def _unloadable(error: Exception, options: MeasureOptions) -> MeasureFailed:
    """Why a kernel could not even be called."""
    if isinstance(error, MemoryError):
        return MeasureFailed(FailureKind.OUT_OF_MEMORY, f"passed {options.memory_bytes >> 20} MiB")
    return MeasureFailed(FailureKind.BUILD, f"the kernel cannot be loaded: {error}")


def _compared(
    task: Task, case: Case, kernels: Sequence[Kernel], options: MeasureOptions, verified: Callable[[], None]
) -> Frame:
    """The answer to a comparison; `verified` is called after each kernel that has given the reference once."""
    entries: list[Contender] = []
    results: list[Measured] = []
    with ExitStack() as stack:
        try:
            for kernel in kernels:
                entries.append(Contender(task, case, kernel, stack))
                verified()
        except WrongError as wrong:
            return _failed(len(entries), wrong.failure)
        except _UNLOADABLE as error:
            return _failed(len(entries), _unloadable(error, options))
        take_turns(entries, options)
        for place_of, entry in enumerate(entries):
            again = check(entry.arguments, case, task.error_budget)
            if isinstance(again, MeasureFailed):
                return _failed(
                    place_of, MeasureFailed(again.kind, f"{again.message}, but only after many runs")
                )
            results.append(entry.result(again))
    return Frame({"event": "results", "results": [result_json(result) for result in results]})


def _failed(place_of: int, failure: MeasureFailed) -> Frame:
    return Frame({"event": "failed", "place": place_of, "result": result_json(failure)})


def _measure_loaded(
    loaded: LoadedKernel,
    task: Task,
    case: Case,
    kernel: Kernel,
    options: MeasureOptions,
    best_s: float | None,
) -> MeasureResult:
    with place(kernel, case) as arguments:
        loaded.run(arguments.pointers)
        error = check(arguments, case, task.error_budget)
        if isinstance(error, MeasureFailed):
            return error
        verified = time.perf_counter()
        pointers = arguments.align()
        samples = sample(lambda runs: loaded.time_ns(pointers, runs), options, best_s)
        again = check(arguments, case, task.error_budget)
    if isinstance(again, MeasureFailed):
        return MeasureFailed(again.kind, f"{again.message}, but only after many runs")
    end = time.perf_counter()
    return Measured(samples, max(error, again), measure_s=end - verified)
