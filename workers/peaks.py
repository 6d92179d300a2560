"""Peaks: what this machine can do at this moment, as the bound that no kernel passes without a better algorithm."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict, dataclass

from compiler.errors import MeasureError
from compiler.target import Target, target_json
from compiler.workload.ir import Workload
from tuner.measure import MeasureFailed
from workers.frames import Frame
from workers.local import started
from workers.process import Child
from workers.sandbox import Limits

TIMEOUT_S = 60.0
_MEMORY_BYTES = 2 << 30


@dataclass(frozen=True, slots=True)
class Peaks:
    """Limits of a team of threads.

    Attributes:
        operations_per_s: f32 multiplications and additions.
        read_bytes_per_s: (size, rate) pairs: how fast a buffer of up to that many bytes is read again and again;
            the last entry is the memory's.
    """

    operations_per_s: float
    read_bytes_per_s: tuple[tuple[int, float], ...]

    def bound_s(self, workload: Workload) -> float:
        """Least time for the Workload's own operations, and for one look at each of its buffers."""
        size = sum(b.size_bytes for b in (*workload.operands, *workload.outputs))
        rate = next((r for limit, r in self.read_bytes_per_s if size <= limit), self.read_bytes_per_s[-1][1])
        return max(workload.operations / self.operations_per_s, size / rate)


def measure_peaks(target: Target, threads: int) -> Peaks:
    """Measure in a sandboxed child, in about half a second; raises MeasureError where that fails."""
    header = {
        "target": target_json(target),
        "threads": threads,
        "limits": asdict(Limits(_MEMORY_BYTES, threads=threads)),
    }
    with closing(Child("probe_peaks", _MEMORY_BYTES)) as child:
        started(child).send(Frame(header), TIMEOUT_S)
        answer = child.receive(TIMEOUT_S)
        if isinstance(answer, Frame):
            answer = child.receive(TIMEOUT_S)
    if isinstance(answer, MeasureFailed):
        msg = f"the machine's peaks cannot be measured ({answer.kind}): {answer.message}; try again"
        raise MeasureError(msg)
    rates = tuple((int(size), float(rate)) for size, rate in answer.header["read"])
    return Peaks(float(answer.header["operations_per_s"]), rates)
