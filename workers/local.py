"""Builder and Runner on this machine, with child processes: the embedded default, nothing to start."""

from __future__ import annotations

import math
import queue
import threading
from collections.abc import Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace

from compiler.codegen.kernel import kernels_from_json, kernels_json
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
from workers.cores import stay_on
from workers.frames import Frame
from workers.heats import HEAT, Heat
from workers.process import START_TIMEOUT_S, Child
from workers.sandbox import Limits
from workers.wire import options_json, task_json

SETUP_TIMEOUT_S = 300.0
"""For operands and the float64 reference of a batch: they depend on the Task, not on any candidate."""


class LocalBuilder:
    """A Builder with some children, each building one candidate at a time.

    Those of its guests' cores stop while something is timed there (`pause`); the others never do.
    """

    def __init__(
        self,
        processes: int = 2,
        options: MeasureOptions | None = None,
        cores: Set[int] | None = None,
        guests: int = 0,
        guests_cores: Set[int] | None = None,
    ) -> None:
        """Children start with the first candidates and stay until `close`.

        processes: children that are never stopped, on `cores`; None for any.
        guests: further children, on `guests_cores`; None for any.
        """
        self._options = options or MeasureOptions()
        # The threads live as long as the children that they start: the kernel ties one to the other.
        self._threads = ThreadPoolExecutor(processes + guests, thread_name_prefix="luthier-build")
        own = [_BuildSlot(self._options, cores) for _ in range(processes)]
        self._guests = [_BuildSlot(self._options, guests_cores) for _ in range(guests)]
        self._all = [*own, *self._guests]
        self._free: queue.PriorityQueue[int] = queue.PriorityQueue()  # who is never stopped comes first
        for number in range(len(self._all)):
            self._free.put(number)

    def build(self, inputs: Sequence[MeasureInput]) -> list[Built | MeasureFailed]:
        """Build all; a crash or a timeout of one is its BUILD failure. Raises MeasureError if no child starts."""
        return list(self._threads.map(self._build_one, inputs))

    def pause(self) -> None:
        """Stop what guests build where it is, and let them begin nothing, until `resume`: their cores are needed."""
        for slot in self._guests:
            slot.pause()

    def resume(self) -> None:
        """Go on."""
        for slot in self._guests:
            slot.resume()

    def close(self) -> None:
        """Stop the children."""
        self.resume()
        self._threads.shutdown(cancel_futures=True)
        for slot in self._all:
            slot.close()

    def _build_one(self, given: MeasureInput) -> Built | MeasureFailed:
        number = self._free.get_nowait()  # As many slots as threads: one is always free.
        try:
            return self._all[number].build(given)
        finally:
            self._free.put(number)


class _BuildSlot:
    """At most one build child; replaced after a failure of the process."""

    def __init__(self, options: MeasureOptions, cores: Set[int] | None) -> None:
        self._options, self._cores = options, cores
        self._child: Child | None = None
        self._going = threading.Event()
        self._going.set()

    def build(self, given: MeasureInput) -> Built | MeasureFailed:
        self._going.wait()
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
        (kernel,) = kernels_from_json(answer.header["kernels"], answer.blobs)
        return Built(kernel, float(answer.header["build_s"]))

    def pause(self) -> None:
        """Stop the child, from any thread, and begin nothing."""
        self._going.clear()
        if (child := self._child) is not None:
            child.pause()

    def resume(self) -> None:
        """Let it go on."""
        if not self._going.is_set():
            if (child := self._child) is not None:
                child.resume()
            self._going.set()

    def close(self) -> None:
        if self._child is not None:
            self._child.close()
            self._child = None

    def _take(self) -> tuple[Child, bool]:
        if self._child is not None and self._child.alive:
            return self._child, False
        self.close()
        stay_on(self._cores)
        self._child = started(Child("build", self._options.memory_bytes))
        return self._child, True


class LocalRunner:
    """A Runner on this machine: a spawned child, replaced after every failure in it."""

    def __init__(
        self,
        device: str = "local",
        options: MeasureOptions | None = None,
        paused: LocalBuilder | None = None,
        cores: Set[int] | None = None,
    ) -> None:
        """Start nothing yet.

        device: names this machine in every Trial.
        paused: whose guests build on the cores that it times on, but not while it does.
        cores: that it times on; None for any.
        """
        self._device, self._paused = device, paused
        self._options = options or MeasureOptions()
        # The thread lives as long as the child that it starts: the kernel ties one to the other.
        self._thread = ThreadPoolExecutor(1, "luthier-measure", lambda: stay_on(cores))
        self._child: Child | None = None
        self._threads = 0  # that the child was allowed; 0: it has met no batch yet
        self._best_s: dict[RecordKey, float] = {}
        self._sandbox = ""

    @property
    def device(self) -> str:
        """Name of the Device that it measures on."""
        return self._device

    @property
    def sandbox(self) -> str:
        """What the last measuring child had given up, such as "rlimits+no_new_privs+netns"; "" before the first."""
        return self._sandbox

    def run(self, task: Task, built: Sequence[Built], pacer: Built | None = None) -> list[MeasureResult]:
        """Measure all; raises MeasureError where this machine cannot run the Target, or no child can be prepared."""
        _check_native(task)
        return self._thread.submit(self._measure_all, task, built, pacer).result()

    def compare(self, task: Task, built: Sequence[Built]) -> list[MeasureResult]:
        """Measure all in turns, in one child; who fails is left out and the others compared again."""
        _check_native(task)
        return self._thread.submit(self._compare_all, task, built).result()

    def close(self) -> None:
        """Stop the child."""
        self._thread.shutdown()
        self._end_child()

    def _measure_all(self, task: Task, built: Sequence[Built], pacer: Built | None) -> list[MeasureResult]:
        found: dict[int, MeasureResult] = {}
        heat = max(1, HEAT // task.threads)
        while left := [place for place in range(len(built)) if place not in found]:
            some = self._measure_until_failure(task, [built[place] for place in left], pacer, heat)
            found.update({left[place]: result for place, result in some.items()})
            if not some:
                heat, pacer = 1, None  # Which of them has ended the process shows when they are timed alone.
        return [found[place] for place in sorted(found)]

    def _compare_all(self, task: Task, built: Sequence[Built]) -> list[MeasureResult]:
        failed: dict[int, MeasureResult] = {}
        while left := [place for place in range(len(built)) if place not in failed]:
            answer = self._take_turns(task, [built[place] for place in left])
            if isinstance(answer, list):
                return [r for _, r in sorted({**failed, **dict(zip(left, answer, strict=True))}.items())]
            failed[left[answer[0]]] = answer[1]
        return [failed[place] for place in sorted(failed)]

    def _end_child(self) -> None:
        if self._child is not None:
            self._child.close()
            self._child, self._threads = None, 0

    def _replace_child(self) -> None:
        """End the child and start another one, which gets ready while the next candidates are chosen and built."""
        self._end_child()
        self._child = Child("measure", self._options.memory_bytes)

    def _measure_until_failure(
        self, task: Task, built: Sequence[Built], pacer: Built | None, heat: int
    ) -> dict[int, MeasureResult]:
        """Results by place, up to the first failure, in one child; none where a heat of several ended it unanswered."""
        child = self._take(task.threads)
        results: dict[int, MeasureResult] = {}
        said, done = Heat(len(built), paced=pacer is not None), False
        try:
            self._prepare(child, task, built, heat, pacer)
            while len(results) < len(built):
                place, answer = len(results), child.receive(said.patience * self._options.timeout_s)
                if said.hears(answer):
                    self._quiet(wanted=said.timing)
                    continue
                self._quiet(wanted=False)
                result = _result(answer)
                if isinstance(result, MeasureFailed):
                    # One that is answered is the next one's; who kept the child from answering may be another.
                    culprit = 0 if isinstance(answer, Frame) else said.culprit
                    return results if culprit is None else {**results, place + culprit: result}
                results[place] = replace(result, build_s=built[place].build_s)
                self._best_s[task.key] = min(result.least_s, self._best_s.get(task.key, result.least_s))
                said.answered()
            done = True
            return results
        finally:
            self._quiet(wanted=False)
            if not done:
                self._replace_child()

    def _quiet(self, *, wanted: bool) -> None:
        """Whether nothing is built on the cores that it times on."""
        if self._paused is not None and wanted:
            self._paused.pause()
        elif self._paused is not None:
            self._paused.resume()

    def _take_turns(
        self, task: Task, built: Sequence[Built]
    ) -> list[MeasureResult] | tuple[int, MeasureFailed]:
        """All results, or the place of the first that failed and its failure."""
        child = self._take(task.threads)
        done = False
        try:
            self._prepare(child, task, built, 0)
            for place in range(len(built)):
                answer = child.receive(self._options.timeout_s)
                if isinstance(answer, MeasureFailed):
                    return place, answer
                if answer.header.get("event") == "failed":
                    return place, _failure(answer)
            self._quiet(wanted=True)
            # Preparing a sample of each may take as long as all samples together.
            answer = child.receive((len(built) + 1) * self._options.timeout_s)
            if isinstance(answer, MeasureFailed):
                msg = f"verified candidates of {task.name} could not be compared: {answer.message}"
                raise MeasureError(msg)
            wrong = answer.header.get("place")
            if isinstance(wrong, int) and 0 <= wrong < len(built):
                return wrong, _failure(answer)
            compared = _compared(answer, built)
            done = True
            return compared
        finally:
            self._quiet(wanted=False)
            if not done:
                self._replace_child()

    def _prepare(
        self, child: Child, task: Task, built: Sequence[Built], heat: int, pacer: Built | None = None
    ) -> None:
        """Have a child begin a batch, so many of them at a time; 0: compare all of them."""
        every = [*built, *([] if pacer is None else [pacer])]
        kernels, objects = kernels_json([b.kernel for b in every])
        cpu_s = int(len(every) * self._options.timeout_s * (task.threads + 1)) + 1
        header = {
            "task": task_json(task),
            "options": options_json(self._options),
            "kernels": kernels,
            "heat": heat,
            "pacer": pacer is not None,
            "best_s": self._best_s.get(task.key),
            "cpu_s": cpu_s,
        }
        fresh = not self._threads
        if fresh:
            self._threads = task.threads
            header["limits"] = asdict(Limits(self._options.memory_bytes, threads=task.threads))
        child.send(Frame(header, objects), SETUP_TIMEOUT_S)
        prepared = child.receive(SETUP_TIMEOUT_S)
        if isinstance(prepared, MeasureFailed):
            msg = f"no candidate of {task.name} could be verified: {prepared.message}; see `luthier doctor`"
            raise MeasureError(msg)
        if fresh:
            self._sandbox = str(prepared.header["sandbox"])

    def _take(self, threads: int) -> Child:
        """A child that may have so many threads, and that has met no failure."""
        child = self._child
        if child is not None:
            fresh = not self._threads
            lost = fresh and isinstance(child.receive(START_TIMEOUT_S), MeasureFailed)
            if lost or not child.alive or (not fresh and self._threads < threads):
                self._end_child()
        if self._child is None:
            self._child = started(Child("measure", self._options.memory_bytes))
        return self._child


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
    if len(results) != len(built) or not any(isinstance(r, Measured) for r in results):
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
    if isinstance(result, Measured) and not _is_possible(result):
        return MeasureFailed(FailureKind.CRASH, "the measuring process answered times that cannot be")
    return result


def _is_possible(result: Measured) -> bool:
    return bool(result.samples_s) and all(0 < s < math.inf for s in (*result.samples_s, *result.pacer_s))
