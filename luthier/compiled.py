"""CompiledSegment: a segment of a model with its code, for values of one kind or of any size."""

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

    def sizes(self, values: Mapping[str, Value]) -> dict[str, int] | None:
        """Of the symbols; None where the values do not fit."""
        if self.pattern is None:
            return {}
        symbols = self.module.symbols if isinstance(self.module, Module) else ()
        return self.pattern.sizes(values, symbols)

    def arguments(self, module: Module | Evaluated, values: Mapping[str, Value]) -> dict[str, Array]:
        """The module's inputs."""
        names = module.inputs if isinstance(module, Evaluated) else [spec.name for spec in module.inputs]
        return {name: array_of(value_at(values, self.segment.inputs[name])) for name in names}

    def run(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """What is needed after the segment."""
        sizes = self.sizes(values)
        assert sizes is not None
        outputs: Mapping[str, Array] = {}
        if isinstance(self.module, Evaluated):
            outputs = self.module.run(self.arguments(self.module, values))
        elif self.module is not None:
            outputs = self.module.run(self.arguments(self.module, values), sizes or None)

        def value(part: Result) -> Value:
            match part:
                case None:
                    return None
                case tuple():
                    return [value(element) for element in part]
                case Known():
                    return part
                case Sized():
                    return part.at(sizes)
                case Computed(output):
                    return outputs[output]
                case Given():
                    return value_at(values, part)

        return {name: value(part) for name, part in self.segment.results.items()}

    def close(self) -> None:
        """End the threads."""
        if isinstance(self.module, Module):
            self.module.close()
