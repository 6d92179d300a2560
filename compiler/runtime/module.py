"""Module: a compiled model that runs. Shared and immutable; each call takes an Execution from a pool."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from compiler.errors import InputError, TargetError
from compiler.runtime.artifact import image_bytes, read_image, write_image
from compiler.runtime.image import Image, TaskLookup, TensorSpec
from compiler.runtime.loader import Execution, LoadedProgram
from compiler.runtime.memory_plan import ALIGNMENT
from compiler.target import Target

Array = np.ndarray[Any, Any]


class Module:
    """A compiled model. Thread-safe: calls at the same time use memory and teams of their own."""

    def __init__(self, image: Image) -> None:
        """Load the code into this process; raises TargetError where this machine cannot run it."""
        if not image.target.is_native:
            msg = f"this machine cannot run code for {image.target.name}; compile for target native"
            raise TargetError(msg)
        self._image = image
        kernels = [kernel.object_code for kernel in image.kernels.values()]
        self._program = LoadedProgram([*kernels, image.program, image.team])
        self._constants = [_aligned_copy(array) for array in image.constants]
        self._idle: list[_Context] = []
        self._lock = threading.Lock()

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Inputs in the model's order."""
        return self._image.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Outputs in the model's order."""
        return self._image.outputs

    @property
    def threads(self) -> int:
        """Size of the team that a call uses."""
        return self._image.threads

    @property
    def target(self) -> Target:
        """What the code was made for."""
        return self._image.target

    @property
    def lookups(self) -> tuple[TaskLookup, ...]:
        """Where the Schedule of each Task came from."""
        return self._image.lookups

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Run the model: arrays by input name to fresh arrays by output name.

        Raises InputError where an input is missing, unknown, or of another shape or type.
        """
        outputs = {spec.name: np.empty(spec.shape, spec.dtype.numpy) for spec in self.outputs}
        self.run_into(inputs, outputs)
        return outputs

    def run_into(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
        """Run the model into existing C-contiguous arrays; allocates nothing where inputs are contiguous too."""
        with self._context() as context:
            context.bind(inputs, outputs)
            context.execution.run()

    def time_s(self, inputs: Mapping[str, Array], runs: int) -> float:
        """Seconds per run over so many runs, measured in native code after one warm-up run."""
        outputs = {spec.name: np.empty(spec.shape, spec.dtype.numpy) for spec in self.outputs}
        with self._context() as context:
            context.bind(inputs, outputs)
            context.execution.run()
            return context.execution.time_ns(runs) / runs * 1e-9

    def save(self, path: str | Path) -> None:
        """Write a `.luthier` file, whole or not at all; raises InputError where that is impossible."""
        write_image(self._image, Path(path))

    def to_bytes(self) -> bytes:
        """The content of the `.luthier` file."""
        return image_bytes(self._image)

    def close(self) -> None:
        """End the threads of idle contexts. Calls that are running keep theirs."""
        with self._lock:
            idle, self._idle = self._idle, []
        for context in idle:
            context.execution.close()

    @contextmanager
    def _context(self) -> Iterator[_Context]:
        with self._lock:
            context = self._idle.pop() if self._idle else None
        if context is None:
            context = _Context(self._image, self._program, self._constants)
        try:
            yield context
        finally:
            context.release()
            with self._lock:
                self._idle.append(context)


def load_module(source: str | Path | bytes) -> Module:
    """Load a `.luthier` file or its bytes. The file holds machine code: load only what you trust.

    Raises InputError where it is not such a file or is damaged, TargetError where this machine cannot run it.
    """
    return Module(read_image(source))


class _Context:
    """What one call at a time needs: arena, table of pointers, team."""

    def __init__(self, image: Image, program: LoadedProgram, constants: list[Array]) -> None:
        self._image = image
        self._constants = constants
        self._arena = _aligned(image.arena_bytes)
        self._zeroed = _aligned(image.zeroed_bytes)
        self._zeroed[:] = 0
        self._held: list[Array] = []
        self.execution = Execution(program, image.threads, len(image.slots))
        bases = {"arena": self._arena.ctypes.data, "zeroed": self._zeroed.ctypes.data}
        self._ports: list[tuple[int, str, int]] = []
        for number, slot in enumerate(image.slots):
            if slot.kind in bases:
                self.execution.table[number] = bases[slot.kind] + slot.where
            elif slot.kind == "constant":
                self.execution.table[number] = constants[slot.where].ctypes.data
            else:
                self._ports.append((number, slot.kind, slot.where))

    def bind(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
        """Point the table at the caller's arrays; they stay alive until `release`."""
        ready = {
            "input": _checked(self._image.inputs, inputs, "input"),
            "output": _checked(self._image.outputs, outputs, "output"),
        }
        self._held = [*ready["input"], *ready["output"]]
        for number, kind, where in self._ports:
            self.execution.table[number] = ready[kind][where].ctypes.data

    def release(self) -> None:
        """Forget the caller's arrays."""
        self._held = []


def _checked(specs: tuple[TensorSpec, ...], arrays: Mapping[str, Array], what: str) -> list[Array]:
    unknown = sorted(set(arrays) - {spec.name for spec in specs})
    if unknown:
        msg = f"the model has no {what} {unknown[0]!r}; it has {', '.join(spec.name for spec in specs)}"
        raise InputError(msg)
    return [_checked_array(spec, arrays, what) for spec in specs]


def _checked_array(spec: TensorSpec, arrays: Mapping[str, Array], what: str) -> Array:
    if spec.name not in arrays:
        msg = f"{what} {spec.name!r} is missing; give an array, {_needed(spec)}"
        raise InputError(msg)
    array = np.asarray(arrays[spec.name])
    if array.dtype != spec.dtype.numpy or array.shape != spec.shape:
        msg = f"{what} {spec.name!r} is {array.dtype.name} of shape {list(array.shape)}; give {_needed(spec)}"
        raise InputError(msg)
    if array.flags.c_contiguous and array.flags.aligned and (what == "input" or array.flags.writeable):
        return array
    if what == "input":
        return np.ascontiguousarray(array)
    msg = f"output {spec.name!r} must be a writeable, C-contiguous array; give {_needed(spec)}"
    raise InputError(msg)


def _needed(spec: TensorSpec) -> str:
    return f"{spec.dtype.numpy.name} of shape {list(spec.shape)}"


def _aligned(size: int) -> Array:
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size]


def _aligned_copy(array: Array) -> Array:
    copy = _aligned(array.nbytes)
    copy[:] = (
        np.frombuffer(array.tobytes(), np.uint8) if array.ndim == 0 else array.reshape(-1).view(np.uint8)
    )
    return copy
