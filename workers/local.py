"""Builder and Runner on this machine, with child processes: the embedded default, nothing to start."""

from __future__ import annotations

import queue
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace

from compiler.codegen.kernel import kernel_from_json
from compiler.errors import MeasureError
from compiler.schedule.schedule import schedule_json
from compiler.target import target_json
from compiler.workload.ir import workload_json
from tuner.measure import (
    Built,
    FailureKind,
    Measured,
    MeasureFailed,
    MeasureInput,
    MeasureOptions,
    MeasureResult,
    result_from_json,
)
from tuner.task import RecordKey, Task
from workers.frames import Frame
from workers.process import START_TIMEOUT_S, Child
from workers.sandbox import Limits
from workers.wire import kernels_json, options_json, task_json

SETUP_TIMEOUT_S = 300.0
"""For operands and the float64 reference of a batch: they depend on the Task, not on any candidate."""

_KEPT_REFERENCE_BYTES = 256 << 20


class LocalBuilder:
    """A Builder with `processes` children, each building one candidate at a time."""

    def __init__(self, processes: int = 2, options: MeasureOptions | None = None) -> None:
        """Children start with the first candidates and stay until `close`."""
        self._options = options or MeasureOptions()
        # The threads live as long as the children that they start: the kernel ties one to the other.
        self._threads = ThreadPoolExecutor(processes, thread_name_prefix="luthier-build")
        self._slots: queue.SimpleQueue[_BuildSlot] = queue.SimpleQueue()
        self._all = [_BuildSlot(self._options) for _ in range(processes)]
        for slot in self._all:
            self._slots.put(slot)

    def build(self, inputs: Sequence[MeasureInput]) -> list[Built | MeasureFailed]:
        """Build all; a crash or a timeout of one is its BUILD failure. Raises MeasureError if no child starts."""
        return list(self._threads.map(self._build_one, inputs))

    def close(self) -> None:
        """Stop the children."""
        self._threads.shutdown(cancel_futures=True)
        for slot in self._all:
            slot.close()

    def _build_one(self, given: MeasureInput) -> Built | MeasureFailed:
        slot = self._slots.get_nowait()  # As many slots as threads: one is always free.
        try:
            return slot.build(given)
        finally:
            self._slots.put(slot)


class _BuildSlot:
    """At most one build child; replaced after a failure of the process."""

    def __init__(self, options: MeasureOptions) -> None:
        self._options = options
        self._child: Child | None = None

    def build(self, given: MeasureInput) -> Built | MeasureFailed:
        child, fresh = self._take()
        header = {
            "workload": workload_json(given.task.workload),
            "schedule": schedule_json(given.candidate.schedule),
            "target": target_json(given.task.target),
        }
        if fresh:
            header["limits"] = asdict(Limits(self._options.memory_bytes))
        child.send(Frame(header), self._options.build_timeout_s)
        if fresh:
            child.receive(START_TIMEOUT_S)
        answer = child.receive(self._options.build_timeout_s)
        if isinstance(answer, MeasureFailed):
            self.close()
            return MeasureFailed(FailureKind.BUILD, f"the compiler's process failed: {answer.message}")
        if "failed" in answer.header:
            return MeasureFailed(FailureKind.BUILD, str(answer.header["failed"]))
        kernel = kernel_from_json(answer.header["kernel"], answer.blobs[0])
        return Built(kernel, float(answer.header["build_s"]))

    def close(self) -> None:
        if self._child is not None:
            self._child.close()
            self._child = None

    def _take(self) -> tuple[Child, bool]:
        if self._child is not None and self._child.alive:
            return self._child, False
        self.close()
        self._child = started(Child("build", self._options.memory_bytes))
        return self._child, True


class LocalRunner:
    """A Runner on this machine: a spawned child per batch, replaced after every failure in it."""

    def __init__(self, device: str = "local", options: MeasureOptions | None = None) -> None:
        """`device` names this machine in every Trial."""
        self._device = device
        self._options = options or MeasureOptions()
        self._next: Child | None = None
        self._best_s: dict[RecordKey, float] = {}
        self._reference: tuple[str, dict[str, bytes]] = ("", {})
        self._sandbox = ""

    @property
    def device(self) -> str:
        """Name of the Device that it measures on."""
        return self._device

    @property
    def sandbox(self) -> str:
        """What the last measuring child had given up, such as "rlimits+no_new_privs+netns"; "" before the first."""
        return self._sandbox

    def run(self, task: Task, built: Sequence[Built]) -> list[MeasureResult]:
        """Measure all; raises MeasureError where this machine cannot run the Target, or no child can be prepared."""
        _check_native(task)
        results: list[MeasureResult] = []
        while len(results) < len(built):
            results += self._measure_until_failure(task, built[len(results) :])
        return results

    def compare(self, task: Task, built: Sequence[Built]) -> list[MeasureResult]:
        """Measure all in turns, in one child; who fails is left out and the others compared again."""
        _check_native(task)
        failed: dict[int, MeasureResult] = {}
        while left := [place for place in range(len(built)) if place not in failed]:
            answer = self._take_turns(task, [built[place] for place in left])
            if isinstance(answer, list):
                return [r for _, r in sorted({**failed, **dict(zip(left, answer, strict=True))}.items())]
            failed[left[answer[0]]] = answer[1]
        return [failed[place] for place in sorted(failed)]

    def close(self) -> None:
        """Stop the child that waits for the next batch."""
        if self._next is not None:
            self._next.close()
            self._next = None

    def _measure_until_failure(self, task: Task, built: Sequence[Built]) -> list[MeasureResult]:
        """Results up to the first failure, in one child; at least one."""
        child = self._take()
        try:
            self._prepare(child, task, built, in_turns=False)
            results: list[MeasureResult] = []
            for b in built:
                result = _result(child.receive(self._options.timeout_s))
                if isinstance(result, MeasureFailed):
                    return [*results, result]
                results.append(replace(result, build_s=b.build_s))
                self._best_s[task.key] = min(result.median_s, self._best_s.get(task.key, result.median_s))
            return results
        finally:
            child.close()
            # It starts while the next candidates are chosen and built.
            self._next = Child("measure", self._options.memory_bytes)

    def _take_turns(
        self, task: Task, built: Sequence[Built]
    ) -> list[MeasureResult] | tuple[int, MeasureFailed]:
        """All results, or the place of the first that failed and its failure."""
        child = self._take()
        try:
            self._prepare(child, task, built, in_turns=True)
            for place in range(len(built)):
                answer = child.receive(self._options.timeout_s)
                if isinstance(answer, MeasureFailed):
                    return place, answer
                if answer.header.get("event") == "failed":
                    return place, _failure(answer)
            # Preparing a sample of each may take as long as all samples together.
            answer = child.receive((len(built) + 1) * self._options.timeout_s)
            if isinstance(answer, MeasureFailed):
                msg = f"verified candidates of {task.name} could not be compared: {answer.message}"
                raise MeasureError(msg)
            wrong = answer.header.get("place")
            if isinstance(wrong, int) and 0 <= wrong < len(built):
                return wrong, _failure(answer)
            return _compared(answer, built)
        finally:
            child.close()
            self._next = Child("measure", self._options.memory_bytes)

    def _prepare(self, child: Child, task: Task, built: Sequence[Built], *, in_turns: bool) -> None:
        kernels, codes = kernels_json(built)
        digest = task.workload.digest
        known = self._reference[1] if self._reference[0] == digest else {}
        cpu_s = int(len(built) * self._options.timeout_s * (task.threads + 1)) + 1
        header = {
            "task": task_json(task),
            "options": options_json(self._options),
            "kernels": kernels,
            "reference": list(known),
            "in_turns": in_turns,
            "best_s": self._best_s.get(task.key),
            "limits": asdict(Limits(self._options.memory_bytes, cpu_s, task.threads)),
        }
        child.send(Frame(header, (*codes, *known.values())), SETUP_TIMEOUT_S)
        prepared = child.receive(SETUP_TIMEOUT_S)
        if isinstance(prepared, MeasureFailed):
            msg = f"no candidate of {task.name} could be verified: {prepared.message}; see `luthier doctor`"
            raise MeasureError(msg)
        self._sandbox = str(prepared.header["sandbox"])
        if sum(map(len, prepared.blobs)) <= _KEPT_REFERENCE_BYTES:
            self._reference = (digest, dict(zip(prepared.header["reference"], prepared.blobs, strict=True)))

    def _take(self) -> Child:
        child, self._next = self._next, None
        if child is not None and not isinstance(child.receive(START_TIMEOUT_S), MeasureFailed):
            return child
        if child is not None:
            child.close()
        return started(Child("measure", self._options.memory_bytes))


def started(child: Child) -> Child:
    """The child, once it is ready; raises MeasureError, and ends it, where it does not get there."""
    ready = child.receive(START_TIMEOUT_S)
    if isinstance(ready, MeasureFailed):
        child.close()
        msg = f"no worker process can be started here: {ready.message}; see `luthier doctor`"
        raise MeasureError(msg)
    return child


def _failure(answer: Frame) -> MeasureFailed:
    """The failure in an answer that says `failed`."""
    result = _result(answer)
    if isinstance(result, MeasureFailed):
        return result
    return MeasureFailed(FailureKind.CRASH, "the measuring process answered something that is no result")


def _compared(answer: Frame, built: Sequence[Built]) -> list[MeasureResult]:
    """The results of a comparison; raises MeasureError where the child answered something else."""
    answers = answer.header.get("results")
    results = [_result(Frame({"result": a})) for a in answers] if isinstance(answers, list) else []
    if len(results) != len(built) or len({len(r.samples_s) for r in results if isinstance(r, Measured)}) != 1:
        msg = "the measuring process answered something that is no comparison"
        raise MeasureError(msg)
    return [
        replace(r, build_s=b.build_s) if isinstance(r, Measured) else r
        for r, b in zip(results, built, strict=True)
    ]


def _check_native(task: Task) -> None:
    if not task.target.is_native:
        msg = f"this machine cannot run code for {task.target.name}; measure on a device of that kind"
        raise MeasureError(msg)


def _result(answer: Frame | MeasureFailed) -> MeasureResult:
    if isinstance(answer, MeasureFailed):
        return answer
    try:
        result = result_from_json(answer.header["result"])
    except (KeyError, TypeError, ValueError):
        return MeasureFailed(FailureKind.CRASH, "the measuring process answered something that is no result")
    if isinstance(result, Measured) and not (result.samples_s and min(result.samples_s) > 0):
        return MeasureFailed(FailureKind.CRASH, "the measuring process answered times that cannot be")
    return result
