"""The measurement protocol, inside the child (version `tuner.task.PROTOCOL`).

Trials are taken in heats. Each candidate of a heat is run once on guarded memory and verified. Then all of them are
timed in turns, on memory where the runtime places it: about as many runs as last `sample_ms`, inside native code, make
a sample. All write the same buffers (`workers.verify.Shared`), so at the end each is run and verified once more.
`verified` is answered per candidate, `timing` before the first run that is timed, and then one result per candidate;
the first that fails is the last that this process measures. Where the batch has a pacer, that is timed with each heat;
`pacer` is answered, before anything else of the heat, once it can be timed or is left out. Batches follow each other,
of any Task for which the process was given enough threads.

A comparison verifies every candidate the same way and then times all of them in turns until `tuner.pairs` can tell them
apart. All results are answered together at the end, or the place and the result of the first that failed.
"""

from __future__ import annotations

import gc
import math
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress

from compiler.codegen.kernel import Kernel, kernels_from_json
from compiler.errors import LuthierError
from tuner.measure import FailureKind, Measured, MeasureFailed, MeasureOptions, MeasureResult, result_json
from tuner.task import Task
from workers import sandbox
from workers.case import Case, Cases
from workers.frames import Frame
from workers.turns import Contender, WrongError, take_trials, take_turns
from workers.verify import Shared
from workers.wire import options_from_json, task_from_json

_CASES = Cases()
_VERIFIED, _TIMING, _PACER = (Frame({"event": event}) for event in ("verified", "timing", "pacer"))
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
    if not header["heat"]:
        reply(_compared(task, case, kernels, options, lambda: reply(_VERIFIED)))
        return
    best_s: float | None = header["best_s"]
    pacer = kernels.pop() if header["pacer"] else None
    while kernels:
        case.trim()
        taken, best_s = _heat(task, case, kernels[: header["heat"]], pacer, options, best_s, reply)
        if not taken:
            return
        kernels = kernels[taken:]


def _heat(
    task: Task,
    case: Case,
    kernels: Sequence[Kernel],
    pacer: Kernel | None,
    options: MeasureOptions,
    best_s: float | None,
    reply: Callable[[Frame], None],
) -> tuple[int, float | None]:
    """Answer trials; how many, 0 where one failed, and the best yet."""
    entries: list[Contender] = []
    failure: MeasureFailed | None = None
    with ExitStack() as stack:
        shared = stack.enter_context(closing(Shared(case, [*kernels, *([] if pacer is None else [pacer])])))
        beside = None
        if pacer is not None:
            with suppress(*_UNLOADABLE):
                beside = Contender(task, case, pacer, shared, stack, verified=False)
            reply(_PACER)
        for kernel in kernels:
            try:
                entries.append(Contender(task, case, kernel, shared, stack))
            except WrongError as wrong:
                failure = wrong.failure
                break
            except _UNLOADABLE as error:
                failure = _unloadable(error, options)
                break
            reply(_VERIFIED)
        if entries:
            reply(_TIMING)
            take_trials(entries, beside, options, best_s)
            _end_where_damaged(shared, len(entries) + (beside is not None))
        for entry in entries:
            result = _checked(entry, shared, beside)
            reply(Frame({"event": "result", "result": result_json(result)}))
            if isinstance(result, MeasureFailed):
                return 0, best_s
            best_s = min(result.least_s, math.inf if best_s is None else best_s)
    if failure is not None:
        reply(Frame({"event": "result", "result": result_json(failure)}))
        return 0, best_s
    return len(entries), best_s


def _end_where_damaged(shared: Shared, writers: int) -> None:
    """As a guard would: which of several has written beside a buffer shows when they are timed alone."""
    if writers > 1 and not shared.intact:
        os.abort()


def _checked(entry: Contender, shared: Shared, pacer: Contender | None = None) -> MeasureResult:
    """The result of one that has been timed: it must still be right, and have changed nothing beside its buffers."""
    try:
        entry.verify()
    except WrongError as wrong:
        return MeasureFailed(wrong.failure.kind, f"{wrong.failure.message}, but only after many runs")
    if not shared.intact:
        message = "wrote outside its scratch buffers, but only after many runs"
        return MeasureFailed(FailureKind.MEMORY_FAULT, message)
    return entry.result(pacer)


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
        shared = stack.enter_context(closing(Shared(case, kernels)))
        try:
            for kernel in kernels:
                entries.append(Contender(task, case, kernel, shared, stack))
                verified()
        except WrongError as wrong:
            return _failed(len(entries), wrong.failure)
        except _UNLOADABLE as error:
            return _failed(len(entries), _unloadable(error, options))
        take_turns(entries, options)
        _end_where_damaged(shared, len(entries))
        for place_of, entry in enumerate(entries):
            result = _checked(entry, shared)
            if isinstance(result, MeasureFailed):
                return _failed(place_of, result)
            results.append(result)
    return Frame({"event": "results", "results": [result_json(result) for result in results]})


def _failed(place_of: int, failure: MeasureFailed) -> Frame:
    return Frame({"event": "failed", "place": place_of, "result": result_json(failure)})
