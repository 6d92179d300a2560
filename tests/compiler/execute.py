"""Runs of a Workload under a Schedule: machine code on any number of threads, and the interpreter."""

from __future__ import annotations

import numpy as np

from compiler.loop.interpreter import interpret
from compiler.pipeline import build_kernel, build_nest
from compiler.runtime.loader import LoadedKernel
from compiler.schedule.schedule import Schedule
from compiler.target import Target, native_target
from compiler.workload.ir import Workload

Arrays = dict[str, np.ndarray]


def run_native(
    workload: Workload, schedule: Schedule, operands: Arrays, threads: int = 1, target: Target | None = None
) -> np.ndarray:
    """The output, from machine code; it is poisoned with NaN before."""
    kernel = build_kernel(workload, schedule, target or native_target())
    output = np.full(workload.outputs[0].sizes, np.nan, np.float32)
    arrays = {"y0": output}
    for param in kernel.params:
        if param.role == "scratch":
            arrays[param.name] = np.full(param.shape, np.nan, param.dtype.numpy)
        elif param.role != "output":
            source = operands[param.name]
            arrays[param.name] = source if param.packing is None else param.packing.apply(source)
    loaded = LoadedKernel(kernel, threads)
    try:
        loaded.run([arrays[p.name].ctypes.data for p in kernel.params])
    finally:
        loaded.close()
    return output


def run_interpreted(workload: Workload, schedule: Schedule, operands: Arrays) -> np.ndarray:
    """The output, from the interpreter."""
    nest = build_nest(workload, schedule)
    output = np.full(workload.outputs[0].sizes, np.nan, np.float32)
    arrays = {"y0": output}
    for buffer in nest.params:
        if buffer.role in ("input", "constant"):
            source = operands[buffer.name]
            arrays[buffer.name] = source if buffer.packing is None else buffer.packing.apply(source)
    interpret(nest, arrays)
    return output


def relative_error(got: np.ndarray, expected: np.ndarray) -> float:
    """Largest difference over the largest expected value; NaN counts as infinite."""
    difference = float(np.max(np.abs(got - expected)))
    return (
        difference / max(1e-30, float(np.max(np.abs(expected)))) if np.isfinite(difference) else float("inf")
    )
