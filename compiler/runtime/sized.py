"""Sized: what a Module prepares for one combination of the sizes of its symbols, for all calls that have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from threading import Lock

from compiler.errors import InputError
from compiler.index import Index
from compiler.runtime.aligned import FreshOutput
from compiler.runtime.arguments import Arguments, Array, Binding, Values
from compiler.runtime.image import Image, TensorSpec
from compiler.runtime.memory_plan import MemoryPlan, place_all
from compiler.runtime.repeat import Port
from compiler.symbol import as_size

_MOST = 64
"""Combinations that a Module keeps, of those that were run last."""


@dataclass(frozen=True, slots=True, eq=False)
class Sized:
    """Inputs and outputs in full, and the places of all values; a static model's are in its image.

    Attributes:
        ports: by name, where the program's table has inputs, and where outputs.
    """

    sizes: Values
    inputs: Arguments
    outputs: Arguments
    ports: tuple[dict[str, Port], dict[str, Port]]
    fresh: dict[str, FreshOutput]
    plan: MemoryPlan | None

    def fresh_outputs(self) -> dict[str, Array]:
        """Arrays for the outputs by name, not set."""
        return {name: fresh() for name, fresh in self.fresh.items()}


class AllSizes:
    """The combinations of sizes that a model was run with; thread-safe."""

    def __init__(self, image: Image) -> None:
        """Prepare; a static model has one combination, the empty one."""
        self._image = image
        self._binding = Binding(image.symbols, image.inputs)
        self._names = [symbol.name for symbol in image.symbols]
        self._known: dict[tuple[int, ...], Sized] = {}
        self._lock = Lock()
        self._static = None if image.symbols else self._sized({})

    def of(self, inputs: Mapping[str, Array], sizes: Values | None = None) -> Sized:
        """What belongs to the sizes, which are those of the inputs where they are not given.

        Raises InputError where the inputs do not say all sizes, or disagree.
        """
        if self._static is not None:
            return self._static
        if sizes is None:
            sizes = self._binding(inputs)
        key = tuple([sizes.get(name, -1) for name in self._names])
        with self._lock:
            known = self._known.pop(key, None)
            if known is not None:
                self._known[key] = known
                return known
        if -1 in key:
            self._refuse(inputs, sizes)
        known = self._sized(dict(zip(self._names, key, strict=True)))
        with self._lock:
            self._known[key] = known
            if len(self._known) > _MOST:
                self._known.pop(next(iter(self._known)))
        return known

    def _refuse(self, inputs: Mapping[str, Array], sizes: Values) -> None:
        """Say what is wrong with the inputs, because of which not all sizes are known."""
        Arguments(_at(self._image.inputs, sizes), "input").check(inputs)
        missing = [name for name in self._names if name not in sizes]
        message = f"no input says how large {missing[0]} is; give it a size"
        raise InputError(message)

    def _sized(self, sizes: Values) -> Sized:
        image = self._image
        inputs, outputs = _at(image.inputs, sizes), _at(image.outputs, sizes)
        return Sized(
            sizes,
            Arguments(inputs, "input"),
            Arguments(outputs, "output"),
            (self._ports("input", inputs), self._ports("output", outputs)),
            {spec.name: FreshOutput(spec.sizes(), spec.dtype.numpy) for spec in outputs},
            place_all(image.lives, sizes) if image.symbols else None,
        )

    def _ports(self, kind: str, specs: tuple[TensorSpec, ...]) -> dict[str, Port]:
        slots: dict[int, list[int]] = {place: [] for place in range(len(specs))}
        for number, slot in enumerate(self._image.slots):
            if slot.kind == kind:
                slots[slot.where].append(number)
        return {
            spec.name: Port(tuple(slots[place]), spec.sizes(), spec.dtype.numpy)
            for place, spec in enumerate(specs)
        }


def _at(specs: tuple[TensorSpec, ...], sizes: Values) -> tuple[TensorSpec, ...]:
    """The specs with the known symbols replaced."""
    bindings = {name: Index.of(value) for name, value in sizes.items()}
    return tuple(
        replace(spec, shape=tuple(as_size(Index.of(n).substitute(bindings)) for n in spec.shape))
        for spec in specs
    )
