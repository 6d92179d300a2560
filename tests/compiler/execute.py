"""Runs of a Workload under a Schedule: machine code on any number of threads, and the interpreter."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from compiler.codegen.kernel import Kernel
from compiler.dtype import DType
from compiler.grid import index_arrays
from compiler.loop.interpreter import interpret
from compiler.pipeline import build_kernel, build_nest
from compiler.runtime.loader import LoadedKernel
from compiler.schedule.schedule import Schedule
from compiler.target import Target, native_target
from compiler.workload.ir import Workload

Arrays = dict[str, np.ndarray]


def native_outputs(
    workload: Workload, schedule: Schedule, operands: Arrays, threads: int = 1, target: Target | None = None
) -> Arrays:
    """The outputs, from machine code; they are poisoned before, as is scratch memory."""
    return run_placed(build_kernel(workload, schedule, target or native_target()), operands, threads=threads)


def run_placed(
    kernel: Kernel,
    operands: Arrays,
    place: Callable[[np.ndarray], np.ndarray] = lambda packed: packed,
    threads: int = 1,
) -> Arrays:
    """The outputs of a kernel; `place` copies a packed constant to where it shall lie."""
    arrays, outputs = Arrays(), Arrays()
    for param in kernel.params:
        if param.role in ("scratch", "output"):
            arrays[param.name] = _poisoned(param.shape, param.dtype)
            if param.role == "output":
                outputs[param.name] = arrays[param.name]
        else:
            source = operands[param.name]
            arrays[param.name] = source if param.packing is None else place(param.packing.apply(source))
    loaded = LoadedKernel(kernel, threads)
    try:
        loaded.run([arrays[p.name].ctypes.data for p in kernel.params])
    finally:
        loaded.close()
    return outputs


def interpreted_outputs(workload: Workload, schedule: Schedule, operands: Arrays) -> Arrays:
    """The outputs, from the interpreter."""
    nest = build_nest(workload, schedule)
    arrays = _poisoned_outputs(workload)
    outputs = dict(arrays)
    for buffer in nest.params:
        if buffer.role in ("input", "constant"):
            source = operands[buffer.name]
            arrays[buffer.name] = source if buffer.packing is None else buffer.packing.apply(source)
    interpret(nest, arrays)
    return outputs


def run_native(
    workload: Workload, schedule: Schedule, operands: Arrays, threads: int = 1, target: Target | None = None
) -> np.ndarray:
    """The only output, from machine code."""
    return native_outputs(workload, schedule, operands, threads, target)["y0"]


def run_interpreted(workload: Workload, schedule: Schedule, operands: Arrays) -> np.ndarray:
    """The only output, from the interpreter."""
    return interpreted_outputs(workload, schedule, operands)["y0"]


def _poisoned_outputs(workload: Workload) -> Arrays:
    return {o.name: _poisoned(o.sizes, o.dtype) for o in workload.outputs}


def stored_error(workload: Workload, got: Arrays, expected: Arrays) -> float:
    """The worst output's relative error; infinite where a place that no stage stores (the halo) was written."""
    worst = 0.0
    for output in workload.outputs:
        stored = np.zeros(output.sizes, bool)
        for stage in (single for whole in workload.stages for single in whole.apart):
            if stage.target == output.name:
                places = np.broadcast_arrays(
                    *index_arrays(stage.target_indices, {a.name: a.size for a in stage.axes})
                )
                stored[tuple(places)] = True
        if not np.isnan(got[output.name][~stored]).all():
            return float("inf")
        worst = max(worst, relative_error(got[output.name][stored], expected[output.name][stored]))
    return worst


def _poisoned(shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    """NaN where the type has it, else a byte that is unlikely to be right."""
    if dtype.is_float:
        return np.full(shape, np.nan, dtype.numpy)
    size = int(np.prod(shape)) * dtype.size_bytes
    return np.full(size, 0x5A, np.uint8).view(dtype.numpy).reshape(shape)


def relative_error(got: np.ndarray, expected: np.ndarray) -> float:
    """Largest difference over the largest expected value; NaN counts as infinite."""
    difference = float(np.max(np.abs(got - expected)))
    return (
        difference / max(1e-30, float(np.max(np.abs(expected)))) if np.isfinite(difference) else float("inf")
    )
