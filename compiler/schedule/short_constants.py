"""Short constants: the constant factor of a sum of products is stored in three bytes an element, and read as a single.

    t0[m, n] = sum(k) x[m, k] * w[k, n]  →  t0[m, n] = sum(k) x[m, k] * f32(f24(w)[k, n])

What reads each constant once or a few times waits for memory: three quarters of the bytes take three quarters of the
time. A number keeps 15 bits of its fraction (compiler/three_bytes.py): each product of the sum is off by 2**-16 of
itself at most, and the sum of many by far less than that of the largest of such sums.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.dtype import DType
from compiler.errors import ScheduleError
from compiler.packing import Shortened
from compiler.scalar import Cast, loads, rewrite
from compiler.schedule.contraction import find_contraction
from compiler.workload.ir import Workload


def short_constants(workload: Workload, parameters: tuple[int, ...]) -> Workload:
    """The rewritten Workload; it has no parameters.

    Raises:
        ScheduleError: its first stage is no sum of products with a constant in float32, or another reads that too.
    """
    stage, *rest = workload.stages
    found = find_contraction(workload, stage)
    if parameters or found is None or workload.buffers[found.weights.buffer].dtype is not DType.F32:
        msg = "short_constants needs a sum of products with a constant in float32, and no parameters"
        raise ScheduleError(msg)
    weights = found.weights
    read = [load.buffer for s in rest for result in s.results for load in loads(result.body)]
    if weights.buffer in read or sum(load.buffer == weights.buffer for load in loads(stage.body)) > 1:
        msg = f"short_constants needs a constant that is read at one place, not {weights.buffer}"
        raise ScheduleError(msg)
    taken = Cast(weights, DType.F32)
    body = rewrite(stage.body, lambda e: taken if e == weights else None)
    return replace(
        workload,
        operands=tuple(
            replace(o, dtype=DType.F24) if o.name == weights.buffer else o for o in workload.operands
        ),
        stages=(replace(stage, body=body), *rest),
        transforms={weights.buffer: Shortened()},
    )
