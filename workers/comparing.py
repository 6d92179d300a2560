"""Comparing whole models, inside the child: they run in alternation on the same inputs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from itertools import islice
from typing import Any

import numpy as np

from compiler.dtype import DType
from compiler.errors import InputError, LuthierError
from compiler.grid import Array
from compiler.runtime.image import TensorSpec
from compiler.runtime.module import Module, load_module
from compiler.runtime.profile import Profile, Profiler
from workers import sandbox
from workers.frames import Frame

MIN_ROUNDS = 3
MIN_SAMPLE_S = 0.02
MOST_ROUNDS = 256
"""In which kernels are timed: a small model runs tens of thousands of times a second."""

Outputs = Mapping[str, Array]


def serve(request: Frame, reply: Callable[[Frame], None]) -> None:
    """Answer one comparison: samples and error by name, or `failed` and why."""
    header = request.header
    reply(Frame(sandbox.enter(header["limits"])))
    try:
        with ExitStack() as stack:
            modules = [stack.enter_context(closing(load_module(blob))) for blob in request.blobs]
            _check_alike(modules, int(header["threads"]))
            answer = _compare(header, modules)
    except LuthierError as error:
        reply(Frame({"failed": str(error)}))
    else:
        reply(Frame(answer))


def relative_error(outputs: Outputs, expected: Outputs) -> float:
    """Largest difference of any output relative to its largest value; infinite where only one of them is finite."""
    return max((_relative_error(outputs[name], expected[name]) for name in expected), default=0.0)


def _relative_error(array: Array, wanted: Array) -> float:
    values, reference = np.asarray(array, np.float64), np.asarray(wanted, np.float64)
    finite = np.isfinite(reference)
    same = np.array_equal(values[~finite], reference[~finite], equal_nan=True)
    if not same or not np.isfinite(values[finite]).all():
        return math.inf
    scale = float(np.abs(reference[finite]).max(initial=0.0)) or 1.0
    difference = float(np.abs(values[finite] - reference[finite]).max(initial=0.0))
    # Small whole numbers are what something was rounded to: beside a tie, its neighbour is as right.
    if np.asarray(array).dtype.kind in "iu" and np.asarray(array).itemsize < DType.I32.size_bytes:
        difference = max(0.0, difference - 1.0)
    return difference / scale


def _check_alike(modules: Sequence[Module], threads: int) -> None:
    for module in modules:
        if module.threads != threads:
            msg = (
                f"an artifact is for {module.threads} threads, not {threads}; compile all for the same number"
            )
            raise InputError(msg)
        if (module.inputs, module.outputs) != (modules[0].inputs, modules[0].outputs):
            msg = "the artifacts are of different models; compare those of one model"
            raise InputError(msg)


def _compare(header: Mapping[str, Any], modules: Sequence[Module]) -> dict[str, Any]:
    """The last module is the reference when there is one more of them than names, else the first."""
    names, inside_s = header["names"], float(header["inside_s"])
    inputs = _inputs(modules[0], int(header["seed"]))
    outputs = [module.run(inputs) for module in modules]
    expected = outputs[-1 if len(modules) > len(names) else 0]
    named = dict(zip(names, modules, strict=False))
    samples = _alternate(named, inputs, float(header["seconds"]))
    errors = {name: relative_error(got, expected) for name, got in zip(names, outputs, strict=False)}
    return {
        "samples_s": samples,
        "max_relative_error": errors,
        "kernels_s": _kernel_times(named, inputs, inside_s) if inside_s else {name: {} for name in names},
    }


def _inputs(module: Module, seed: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {
        spec.name: rng.standard_normal(spec.sizes()).astype(spec.dtype.numpy)
        if spec.dtype.is_float
        else _whole_numbers(rng, spec)
        for spec in module.inputs
    }


def _whole_numbers(rng: np.random.Generator, spec: TensorSpec) -> Array:
    """Over the range of small types; 0 and 1 for wide ones, which are masks and indices more often than data."""
    low, high = spec.dtype.limits if spec.dtype.size_bytes < DType.I32.size_bytes else (0, 1)
    return rng.integers(low, high, spec.sizes(), endpoint=True).astype(spec.dtype.numpy)


def _alternate(
    modules: Mapping[str, Module], inputs: Mapping[str, Array], seconds: float
) -> dict[str, list[float]]:
    """Samples in seconds per run, one of each module a round, every other round in reverse order."""
    once = {name: module.time_s(inputs, 1) for name, module in modules.items()}
    runs = {name: max(1, math.ceil(MIN_SAMPLE_S / max(s, 1e-9))) for name, s in once.items()}
    samples: dict[str, list[float]] = {name: [] for name in modules}
    for order in _rounds(list(modules), seconds):
        for name in order:
            samples[name].append(modules[name].time_s(inputs, runs[name]))
    return samples


def _kernel_times(
    modules: Mapping[str, Module], inputs: Mapping[str, Array], seconds: float
) -> dict[str, dict[str, list[float]]]:
    """Seconds in each kernel, by its symbol, in runs of the models by turns; one figure per round, over all calls."""
    with ExitStack() as stack:
        profilers = {
            name: stack.enter_context(closing(Profiler(module.image, inputs)))
            for name, module in modules.items()
        }
        for order in islice(_rounds(list(profilers), seconds), MOST_ROUNDS):
            for name in order:
                profilers[name].run()
        return {name: _by_kernel(profiler.profile()) for name, profiler in profilers.items()}


def _by_kernel(profile: Profile) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for kernel in profile.kernels:
        known = found.get(kernel.kernel, [0.0] * len(kernel.samples_s))
        found[kernel.kernel] = [a + b for a, b in zip(known, kernel.samples_s, strict=True)]
    return found


def _rounds(names: list[str], seconds: float) -> Iterator[list[str]]:
    start, done = time.perf_counter(), 0
    while done < MIN_ROUNDS or time.perf_counter() - start < seconds:
        yield names if done % 2 == 0 else names[::-1]
        done += 1
