"""Profile: how long each kernel of a model takes inside its run.

A profiled program notes the clock in native code when each share of a kernel begins and ends (about 25 ns each), on the
caches as the kernel before left them. It is a program of its own: a Module that is not profiled has nothing of it. A
kernel's time is from the begin of its first share to the end of its last; what lies between the end of one kernel and
the begin of the next is the team's. There are as many shares as members, and each member does its own unless it is
kept from it for long (compiler/codegen/team_run.py).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from compiler.codegen.program import program_object
from compiler.dtype import DType
from compiler.runtime.arguments import Array, Binding, Values
from compiler.runtime.image import Image, KernelCall, Slot, TensorSpec
from compiler.runtime.module import Module

_STAMPS = "\0stamps"
"""The output of a profiled program that no model has: int64 [share, phase, begin or end]."""
_MIN_RUNS = 2


@dataclass(frozen=True, slots=True)
class KernelTime:
    """A kernel of a run.

    Attributes:
        name: of the Subgraph, for people.
        kernel: its name; calls of one kernel share it.
        samples_s: seconds, one per run.
        busy: part of the team's time in which members worked, 1 where all ended together.
        constant_bytes: of its packed weights.
        value_bytes: of its other inputs, its outputs and scratch buffers.
    """

    name: str
    kernel: str
    samples_s: tuple[float, ...]
    busy: float
    constant_bytes: int
    value_bytes: int

    @property
    def median_s(self) -> float:
        """Seconds."""
        return float(np.median(self.samples_s))


@dataclass(frozen=True, eq=False)
class Profile:
    """The kernels of a model in the order in which they run.

    Attributes:
        samples_s: seconds from the begin of the first kernel to the end of the last, one per run.
        phases: the names of all phases, in order; a kernel has one or more.
        stamps_ns: shape (runs, shares, phases, 2), nanoseconds of the monotonic clock.
        constant_bytes: of the packed weights of the whole model.
    """

    kernels: tuple[KernelTime, ...]
    samples_s: tuple[float, ...]
    phases: tuple[str, ...]
    stamps_ns: np.ndarray[Any, Any]
    constant_bytes: int

    @property
    def median_s(self) -> float:
        """Seconds of a run."""
        return float(np.median(self.samples_s))

    @property
    def between_s(self) -> float:
        """Seconds of a run in which no kernel ran; the median of what each run has of it."""
        kernels = np.sum([kernel.samples_s for kernel in self.kernels], axis=0)
        return float(np.median(np.subtract(self.samples_s, kernels)))


class Profiler:
    """Runs a model and notes times. Not thread-safe; close it after use."""

    def __init__(self, image: Image, inputs: Mapping[str, Array]) -> None:
        """Build the profiled program beside the same kernels; raises InputError for inputs that do not fit."""
        self._image, self._inputs = image, inputs
        self._module = Module(_with_stamps(image))
        self._values: Values = Binding(image.symbols, image.inputs)(inputs)
        self._runs: list[Array] = []

    def sample(self, seconds: float) -> None:
        """Run for so long, two times at least, after a run that is not noted."""
        self._module.run(self._inputs)
        deadline, last = time.perf_counter() + seconds, len(self._runs) + _MIN_RUNS
        while len(self._runs) < last or time.perf_counter() < deadline:
            self.run()

    def run(self) -> dict[str, Array]:
        """Run once, note the times, give the model's outputs."""
        outputs = {
            spec.name: np.zeros(spec.sizes(self._values), spec.dtype.numpy) for spec in self._module.outputs
        }
        self._module.run_into(self._inputs, outputs)
        self._runs.append(outputs.pop(_STAMPS))
        return outputs

    def profile(self) -> Profile:
        """What all samples so far amount to; there must be one."""
        stamps = np.stack(self._runs)
        kernels, phases, first = [], [], 0
        for call in self._image.calls:
            count = len(self._image.kernels[call.kernel].phases)
            kernels.append(self._kernel(call, stamps[:, :, first : first + count]))
            phases += [call.name] if count == 1 else [f"{call.name} [{i}]" for i in range(count)]
            first += count
        constants = sum(array.nbytes for array in self._image.constants)
        return Profile(tuple(kernels), _seconds(stamps), tuple(phases), stamps, constants)

    def close(self) -> None:
        """End the team."""
        self._module.close()

    def _kernel(self, call: KernelCall, stamps: Array) -> KernelTime:
        """`stamps`: shape (runs, shares, phases of the kernel, 2)."""
        spent = (stamps[..., 1] - stamps[..., 0]).mean(axis=1)
        lasted = stamps[..., 1].max(axis=1) - _begins(stamps).min(axis=1)
        busy = float(spent.sum() / max(1, lasted.sum()))
        constant, value = self._bytes(call)
        return KernelTime(call.name, call.kernel, _seconds(stamps), busy, constant, value)

    def _bytes(self, call: KernelCall) -> tuple[int, int]:
        kernel, slots = self._image.kernels[call.kernel], [self._image.slots[n] for n in call.slots]
        names = [self._image.symbols[slot.where].name for slot in slots[len(kernel.params) :]]
        values = {own: self._values[name] for own, name in zip(kernel.symbols, names, strict=True)}
        total = {"constant": 0, "value": 0}
        for param, slot in zip(kernel.params, slots, strict=False):
            kind = "constant" if slot.kind == "constant" else "value"
            total[kind] += prod(param.sizes(values)) * param.dtype.size_bytes
        return total["constant"], total["value"]


def _with_stamps(image: Image) -> Image:
    """The same model with one more output, which its program fills with times."""
    calls = tuple(c for k in image.calls for c in k.phases(image.kernels[k.kernel]))
    program = program_object(calls, image.target, stamps=len(image.slots))
    spec = TensorSpec(_STAMPS, (image.threads, len(calls), 2), DType.I64)
    slots = (*image.slots, Slot("output", len(image.outputs)))
    return replace(image, program=program, outputs=(*image.outputs, spec), slots=slots)


def _seconds(stamps: Array) -> tuple[float, ...]:
    """From the first begin to the last end, per run."""
    lasted = stamps[..., 1].max(axis=(1, 2)) - _begins(stamps).min(axis=(1, 2))
    return tuple(float(ns) * 1e-9 for ns in lasted)


def _begins(stamps: Array) -> Array:
    """When shares began; one that took no part is no first one."""
    return np.where(stamps[..., 0], stamps[..., 0], np.iinfo(np.int64).max)
