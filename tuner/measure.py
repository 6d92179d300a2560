"""Building and measuring: the interfaces that workers implement, and their results as values.

    MeasureInput  --Builder-->  Built | MeasureFailed  --Runner-->  Measured | MeasureFailed

A candidate that fails is a value of its kind and never an exception; only a broken machine raises MeasureError.
"""

from __future__ import annotations

import enum
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from compiler.codegen.kernel import Kernel
from tuner.candidate import Candidate
from tuner.task import Task


class FailureKind(enum.StrEnum):
    """Why a candidate has no time."""

    BUILD = "build"  # the Schedule is illegal, or no code could be made
    TIMEOUT = "timeout"  # did not end within its limit
    MEMORY_FAULT = "memory_fault"  # read or wrote outside its buffers
    ARITHMETIC_FAULT = "arithmetic_fault"  # integer division by zero and the like
    OUT_OF_MEMORY = "out_of_memory"  # passed its memory limit
    NOT_FINITE = "not_finite"  # NaN or infinity where the reference is finite
    WRONG_OUTPUT = "wrong_output"  # error beyond the Task's budget
    CRASH = "crash"  # any other end of the measuring process


@dataclass(frozen=True, slots=True)
class MeasureInput:
    """What to build and measure."""

    task: Task
    candidate: Candidate


@dataclass(frozen=True, slots=True)
class Built:
    """Machine code of a candidate."""

    kernel: Kernel
    build_s: float


@dataclass(frozen=True, slots=True)
class Measured:
    """A verified candidate's times.

    Attributes:
        samples_s: seconds per run, in the order they were taken.
        error: largest difference from the float64 reference, relative to its largest value.
        pacer_s: what the pacer took in the rounds of the samples (`Runner.run`); empty where there was none.
    """

    samples_s: tuple[float, ...]
    error: float
    build_s: float = 0.0
    verify_s: float = 0.0
    measure_s: float = 0.0
    pacer_s: tuple[float, ...] = ()

    def at_pace(self, pace_s: float) -> Measured:
        """The times of a machine on which the pacer takes so long in each round; unchanged where there was none."""
        if not self.pacer_s:
            return self
        samples_s = tuple(s * pace_s / p for s, p in zip(self.samples_s, self.pacer_s, strict=True))
        return replace(self, samples_s=samples_s, pacer_s=())

    @property
    def median_s(self) -> float:
        """What it is ranked, trained on and served by."""
        return statistics.median(self.samples_s)

    @property
    def least_s(self) -> float:
        """What it took when nothing disturbed it: what disturbs a run makes it longer, and never shorter."""
        return min(self.samples_s)


@dataclass(frozen=True, slots=True)
class MeasureFailed:
    """A candidate without a time; `message` is one sentence for people."""

    kind: FailureKind
    message: str


MeasureResult = Measured | MeasureFailed


@dataclass(frozen=True, slots=True)
class MeasureOptions:
    """Limits and repeats of the measurement protocol.

    Attributes:
        samples: of a trial.
        sample_ms: length of each, as near as whole runs come to it.
        stop_early: fewer samples of what is clearly slow.
        timeout_s: for the run of a candidate.
        build_timeout_s: for building it.
        memory_bytes: that a worker process may use.
        seed: of the operands.
    """

    samples: int = 8
    sample_ms: float = 1.0
    stop_early: bool = True
    timeout_s: float = 10.0
    build_timeout_s: float = 30.0
    memory_bytes: int = 4 << 30
    seed: int = 0


class Builder(Protocol):
    """Turns candidates into machine code. Results keep the order of the inputs. Not thread-safe. Close it after use."""

    def build(self, inputs: Sequence[MeasureInput]) -> list[Built | MeasureFailed]:
        """Build all; one result per input."""
        ...

    def close(self) -> None:
        """Stop its processes."""
        ...


class Runner(Protocol):
    """Verifies and times built candidates of one Task on one Device. Results keep the order. Not thread-safe."""

    @property
    def device(self) -> str:
        """Name of the Device that it measures on."""
        ...

    def run(self, task: Task, built: Sequence[Built], pacer: Built | None = None) -> list[MeasureResult]:
        """Measure all; one result per input. Raises MeasureError where the Device itself is lost.

        pacer: a kernel of the Task that is timed in the rounds of each candidate, so that trials of different moments
            can be compared (`Measured.at_pace`). One that fails is left out.
        """
        ...

    def compare(self, task: Task, built: Sequence[Built]) -> list[MeasureResult]:
        """Measure all in turns; the n-th samples of all were taken in the n-th round (tuner.pairs).

        The first wins ties. Who cannot win any more takes no part in later rounds, and has fewer samples.

        Raises MeasureError where the Device itself is lost.
        """
        ...

    def close(self) -> None:
        """Stop its processes."""
        ...


def result_json(result: MeasureResult) -> dict[str, Any]:
    """JSON form of a result."""
    if isinstance(result, MeasureFailed):
        return {"kind": result.kind.value, "message": result.message}
    data = {
        "samples_s": list(result.samples_s),
        "error": result.error,
        "build_s": result.build_s,
        "verify_s": result.verify_s,
        "measure_s": result.measure_s,
    }
    return {**data, "pacer_s": list(result.pacer_s)} if result.pacer_s else data


def result_from_json(data: dict[str, Any]) -> MeasureResult:
    """Inverse of `result_json`; raises KeyError, TypeError or ValueError on anything else."""
    if "kind" in data:
        return MeasureFailed(FailureKind(data["kind"]), str(data["message"]))
    samples, pacer = (tuple(float(s) for s in of) for of in (data["samples_s"], data.get("pacer_s", ())))
    if len(pacer) not in (0, len(samples)):
        msg = f"{len(pacer)} rounds of a pacer do not belong to {len(samples)} samples"
        raise ValueError(msg)
    error, build_s, verify_s, measure_s = (
        float(data[k]) for k in ("error", "build_s", "verify_s", "measure_s")
    )
    return Measured(samples, error, build_s, verify_s, measure_s, pacer)
