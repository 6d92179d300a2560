"""Module: a compiled model that runs. Shared and immutable; each call takes an Execution from a pool."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from compiler.codegen.kernel import phase_objects
from compiler.errors import TargetError
from compiler.runtime.aligned import aligned, aligned_bytes, aligned_empty, data_pointer
from compiler.runtime.arguments import Array, Values
from compiler.runtime.artifact import image_bytes, read_image, write_image
from compiler.runtime.image import Image, TaskLookup, TensorSpec
from compiler.runtime.loader import Execution, LoadedProgram
from compiler.runtime.repeat import Recurrence, Repeated, Repeating
from compiler.runtime.sized import AllSizes, Sized
from compiler.symbol import Symbol
from compiler.target import Target

if TYPE_CHECKING:
    from compiler.runtime.profile import Profile


class Module:
    """A compiled model. Thread-safe: calls at the same time use memory and teams of their own."""

    def __init__(self, image: Image) -> None:
        """Load the code into this process; raises TargetError where this machine cannot run it."""
        if not image.target.is_native:
            msg = f"this machine cannot run code for {image.target.name}; compile for target native"
            raise TargetError(msg)
        self._image = image
        kernels = phase_objects(image.kernels.values())
        self._program = LoadedProgram([*kernels.values(), image.program, image.team])
        self._constants = [aligned(array) for array in image.constants]
        self._sizes = AllSizes(image)
        self._idle: list[_Context] = []
        self._lock = threading.Lock()
        self._named = {_shapes(part.inputs): Module(part) for part in image.named}

    @property
    def image(self) -> Image:
        """The compiled model as data."""
        return self._image

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Inputs in the model's order."""
        return self._image.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Outputs in the model's order."""
        return self._image.outputs

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """The open sizes of the inputs: each call chooses their values. A static model has none."""
        return self._image.symbols

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
        """Where the Schedule of each Task came from; those of sizes that were named follow those of all others."""
        return self._image.all_lookups

    def at(self, shapes: Mapping[str, tuple[int, ...]]) -> Module:
        """The Module that runs inputs of these shapes: one of its own for sizes that were named, else this one."""
        return self._named.get(tuple(shapes.get(spec.name, ()) for spec in self.inputs), self)

    def _for(self, inputs: Mapping[str, Array]) -> Module:
        return self.at({name: np.shape(array) for name, array in inputs.items()}) if self._named else self

    def run(self, inputs: Mapping[str, Array], sizes: Values | None = None) -> dict[str, Array]:
        """Run the model: arrays by input name to fresh arrays by output name.

        `sizes`: of the symbols, where the caller knows them; by default those that the inputs have.

        Raises InputError where an input is missing, unknown, or of another shape or type.
        """
        if self._named and (named := self._for(inputs)) is not self:
            return named.run(inputs)
        sized = self._sizes.of(inputs, sizes)
        ready = sized.inputs.check(inputs)
        outputs = sized.fresh_outputs()
        self._run(ready, list(outputs.values()), sized)
        return outputs

    def run_into(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
        """Run the model into existing C-contiguous arrays; allocates nothing where inputs are contiguous too.

        A model with symbols allocates where a context sees new sizes that need more memory than those before.
        """
        if self._named and (named := self._for(inputs)) is not self:
            return named.run_into(inputs, outputs)
        sized = self._sizes.of(inputs)
        return self._run(sized.inputs.check(inputs), sized.outputs.check(outputs), sized)

    def _run(self, inputs: list[Array], outputs: list[Array], sized: Sized) -> None:
        context = self._taken(sized)
        try:
            context.bind(inputs, outputs)
            context.execution.run()
        finally:
            self._give_back(context)

    def repeat(
        self,
        inputs: Mapping[str, Array],
        recurrence: Recurrence,
        first: int,
        most: int,
        sizes: Values | None = None,
    ) -> Repeated:
        """Run up to `most` times, each time on what the run before gave; see `compiler/runtime/repeat.py`.

        `first`: the number of the first run. Raises InputError as `run` does.
        """
        sized = self._sizes.of(inputs, sizes)
        ready = sized.inputs.check(inputs)
        context = self._taken(sized)
        try:
            context.bind(ready, [])
            return Repeating(context.execution, *sized.ports, recurrence, first).run(most)
        finally:
            self._give_back(context)

    def time_s(self, inputs: Mapping[str, Array], runs: int) -> float:
        """Seconds per run over so many runs, measured in native code after one warm-up run."""
        if self._named and (named := self._for(inputs)) is not self:
            return named.time_s(inputs, runs)
        sized = self._sizes.of(inputs)
        ready = sized.inputs.check(inputs)
        context = self._taken(sized)
        try:
            context.bind(ready, list(sized.fresh_outputs().values()))
            return context.execution.time_ns(runs, before=1) / runs * 1e-9
        finally:
            self._give_back(context)

    def profile(self, inputs: Mapping[str, Array], seconds: float = 1.0) -> Profile:
        """Times of every kernel over runs for so long, two at least; see `compiler/runtime/profile.py`.

        Raises InputError as `run` does.
        """
        from compiler.runtime.profile import Profiler  # which makes Modules

        with closing(Profiler(self._for(inputs).image, inputs)) as profiler:
            profiler.sample(seconds)
            return profiler.profile()

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
        for named in self._named.values():
            named.close()

    def _taken(self, sized: Sized) -> _Context:
        """A context for these sizes that no other call uses; give it back."""
        if sized.plan is None:
            # Taking one from a list is one step, which needs no lock.
            try:
                return self._idle.pop()
            except IndexError:
                context = None
        else:
            with self._lock:
                places = reversed(range(len(self._idle)))
                fits = (place for place in places if self._idle[place].sized is sized)
                context = self._idle.pop(next(fits, -1)) if self._idle else None
        if context is None:
            context = _Context(self._image, self._program, self._constants)
        if context.sized is not sized:
            context.resize(sized)
        return context

    def _give_back(self, context: _Context) -> None:
        context.release()
        self._idle.append(context)


def load_module(source: str | Path | bytes) -> Module:
    """Load a `.luthier` file or its bytes. The file holds machine code: load only what you trust.

    Raises InputError where it is not such a file or is damaged, TargetError where this machine cannot run it.
    """
    return Module(read_image(source))


def _shapes(inputs: tuple[TensorSpec, ...]) -> tuple[tuple[int, ...], ...]:
    return tuple(spec.sizes() for spec in inputs)


class _Context:
    """What one call at a time needs: arena, table of pointers, team. `sized`: the sizes that it is set up for."""

    def __init__(self, image: Image, program: LoadedProgram, constants: list[Array]) -> None:
        self._image = image
        self._constants = constants
        self._arena = aligned_bytes(image.arena_bytes)
        self._zeroed = aligned_bytes(image.zeroed_bytes)
        self._zeroed[:] = 0
        self._held: list[Array] = []
        self._copies: dict[int, Array] = {}
        self.sized: Sized | None = None
        self.execution = Execution(program, image.threads, len(image.slots))
        bases = {"arena": self._arena.ctypes.data, "zeroed": self._zeroed.ctypes.data}
        # Of the arrays of a call, which are its inputs and then its outputs.
        self._ports: list[tuple[int, int]] = []
        self._planned: list[tuple[int, int]] = []
        self._symbols: list[tuple[int, str]] = []
        for number, slot in enumerate(image.slots):
            if slot.kind in bases:
                self.execution.table[number] = bases[slot.kind] + slot.where
            elif slot.kind == "constant":
                self.execution.table[number] = constants[slot.where].ctypes.data
            elif slot.kind == "planned":
                self._planned.append((number, slot.where))
            elif slot.kind == "symbol":
                self._symbols.append((number, image.symbols[slot.where].name))
            else:
                first = 0 if slot.kind == "input" else len(image.inputs)
                self._ports.append((number, first + slot.where))

    def resize(self, sized: Sized) -> None:
        """Place the values of a model with symbols for these sizes; memory grows and never shrinks."""
        self.sized = sized
        if (plan := sized.plan) is None:
            return
        if self._arena.nbytes < plan.arena_bytes:
            self._arena = aligned_bytes(plan.arena_bytes)
        if self._zeroed.nbytes < plan.zeroed_bytes:
            self._zeroed = aligned_bytes(plan.zeroed_bytes)
        self._zeroed[: plan.zeroed_bytes] = 0
        bases = (self._arena.ctypes.data, self._zeroed.ctypes.data)
        for number, where in self._planned:
            place = plan.places[self._image.lives[where].value]
            self.execution.table[number] = bases[place.zeroed] + place.offset
        for number, name in self._symbols:
            self.execution.table[number] = sized.sizes[name]

    def bind(self, inputs: list[Array], outputs: list[Array]) -> None:
        """Point the table at checked arrays, as far as there are any; they stay alive until `release`.

        Inputs that are read in vectors again and again are copied where a vector of theirs would cross a line.
        """
        self._held = held = [*inputs, *outputs]
        table = self.execution.table
        for number in self._image.reread:
            if data_pointer(held[number]) % self._image.target.vector_bytes:
                held[number] = self._copied(number, held[number])
        for number, where in self._ports:
            if where < len(held):
                table[number] = data_pointer(held[where])

    def _copied(self, number: int, array: Array) -> Array:
        """The input in memory of the context's own, which the next call of the same sizes uses again."""
        copy = self._copies.get(number)
        if copy is None or copy.shape != array.shape:
            copy = self._copies[number] = aligned_empty(array.shape, array.dtype)
        copy[...] = array
        return copy

    def release(self) -> None:
        """Forget the caller's arrays."""
        self._held = []
