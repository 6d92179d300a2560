"""CompiledSegment: a segment of a model with its code, for values of one kind or of any size.

`Ready` is such a segment at certain sizes: all that does not depend on the elements of a call's arrays is worked out
once, since a segment may take less time than asking for it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from compiler.frontend.segment import Computed, Given, Known, Result, Segment, Sized
from compiler.runtime.module import Module
from luthier.evaluated import Evaluated
from luthier.values import Array, Value, array_of, value_at
from luthier.varying import Pattern


@dataclass(frozen=True, eq=False)
class CompiledSegment:
    """What runs.

    Attributes:
        module: None where nothing is computed; Evaluated where it is too early for code.
        needed: the values that the code was made for.
        pattern: of the values that it runs for, where it is for all sizes.
    """

    segment: Segment
    module: Module | Evaluated | None
    needed: frozenset[Given] = field(default_factory=frozenset)
    pattern: Pattern | None = None

    @property
    def is_final(self) -> bool:
        """Whether nothing will take its place, but for want of room."""
        return not isinstance(self.module, Evaluated)

    def sizes(self, values: Mapping[str, Value]) -> dict[str, int] | None:
        """Of the symbols; None where the values do not fit."""
        if self.pattern is None:
            return {}
        symbols = self.module.symbols if isinstance(self.module, Module) else ()
        return self.pattern.sizes(values, symbols)

    def ready(self, values: Mapping[str, Value]) -> Ready:
        """To run for values that it fits, and for all others of their kinds."""
        sizes = self.sizes(values)
        assert sizes is not None
        return Ready(self, sizes)

    def close(self) -> None:
        """End the threads."""
        if isinstance(self.module, Module):
            self.module.close()


class Ready:
    """A segment at certain sizes."""

    def __init__(self, compiled: CompiledSegment, sizes: dict[str, int]) -> None:
        """`sizes`: of the symbols."""
        self.compiled, self.segment, self.sizes = compiled, compiled.segment, sizes
        names = () if compiled.module is None else _inputs(compiled.module)
        self._arguments = [(name, self.segment.inputs[name]) for name in names]
        self._fixed: dict[str, Value] = {}
        self._others: list[tuple[str, Result]] = []
        for name, part in self.segment.results.items():
            match part:
                case None | Known():
                    self._fixed[name] = part
                case Sized():
                    self._fixed[name] = part.at(sizes)
                case _:
                    self._others.append((name, part))

    def arguments(self, values: Mapping[str, Value]) -> dict[str, Array]:
        """The module's inputs."""
        return {name: array_of(value_at(values, given)) for name, given in self._arguments}

    def run(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """What is needed after the segment."""
        module = self.compiled.module
        outputs: Mapping[str, Array] = {}
        if isinstance(module, Evaluated):
            outputs = module.run(self.arguments(values))
        elif module is not None:
            outputs = module.run(self.arguments(values), self.sizes or None)
        found = self._fixed.copy()
        for name, part in self._others:
            found[name] = self._value(part, values, outputs)
        return found

    def _value(self, part: Result, values: Mapping[str, Value], outputs: Mapping[str, Array]) -> Value:
        if isinstance(part, Computed):
            return outputs[part.output]
        if isinstance(part, Given):
            return value_at(values, part)
        if isinstance(part, tuple):
            return [self._value(element, values, outputs) for element in part]
        return part.at(self.sizes) if isinstance(part, Sized) else part


def _inputs(module: Module | Evaluated) -> tuple[str, ...]:
    return module.inputs if isinstance(module, Evaluated) else tuple(spec.name for spec in module.inputs)
