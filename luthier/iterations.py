"""Iterations of a loop whose body is one piece of code and keeps its sizes: runs that follow each other at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compiler.frontend.loops import LoopPlan
from compiler.frontend.segment import Computed, Given, Known, Result
from compiler.runtime.module import Module
from compiler.runtime.repeat import Recurrence, Repeated
from luthier.compiled import Ready
from luthier.values import Array, Value


@dataclass(frozen=True, slots=True)
class Many:
    """What some iterations leave behind.

    Attributes:
        carried: what enters the next one.
        scanned: of each collection what they gave, along a new first dimension.
    """

    runs: int
    going: bool
    carried: list[Value]
    scanned: list[Array]


@dataclass(frozen=True, slots=True)
class Iterations:
    """The body of a loop, and how one run of it follows the other."""

    body: Ready
    module: Module
    recurrence: Recurrence
    carried: tuple[str, ...]
    """The output that each value becomes; "" for one that stays."""

    def run(self, values: Mapping[str, Value], carried: Sequence[Value], first: int, most: int) -> Many:
        """Up to so many iterations, the first of which is number `first`."""
        arguments = self.body.arguments(values)
        found: Repeated = self.module.repeat(arguments, self.recurrence, first, most, self.body.sizes or None)
        entering = [
            found.last[name] if name else old for old, name in zip(carried, self.carried, strict=True)
        ]
        return Many(
            found.runs, found.going, entering, [found.stacked[name] for name in self.recurrence.stacked]
        )


def iterations_of(plan: LoopPlan, body: Ready) -> Iterations | None:
    """The iterations of a loop with a body that was compiled; None where they need a driver in between."""
    segment, module = body.segment, body.compiled.module
    number, condition, *own = plan.inputs
    again, *results = plan.results
    changing = {number, condition, *own}
    if not isinstance(module, Module) or segment.rest is not None:
        return None
    # Code that was made for the value of what changes is for one iteration.
    if any(given.name in changing for given in body.compiled.needed):
        return None
    parts = [segment.results[name] for name in results]
    going = _going(segment.results[again], condition)
    found = [_becomes(name, part) for name, part in zip(own, parts, strict=False)]
    becomes = [output for output in found if output is not None]
    scanned = [part.output for part in parts[len(own) :] if isinstance(part, Computed)]
    if going is None or len(becomes) + len(scanned) < len(parts):
        return None
    kinds = {
        spec.name: (spec.sizes(body.sizes), spec.dtype.numpy) for spec in (*module.inputs, *module.outputs)
    }
    carried = {
        spec.name: output
        for name, output in zip(own, becomes, strict=True)
        for spec in module.inputs
        if output and segment.inputs[spec.name].name == name
    }
    if any(kinds[given] != kinds[output] for given, output in carried.items()):
        return None
    counters = [spec.name for spec in module.inputs if segment.inputs[spec.name] == Given(number)]
    recurrence = Recurrence(
        counter=counters[0] if counters else "",
        going=going,
        carried=carried,
        last=tuple(filter(None, becomes)),
        stacked=tuple(scanned),
    )
    return Iterations(body, module, recurrence, tuple(becomes))


def _becomes(name: str, part: Result) -> str | None:
    """The output that a carried value becomes; "" for one that stays, None for what is no output."""
    if part == Given(name):
        return ""
    return part.output if isinstance(part, Computed) else None


def _going(again: Result, condition: str) -> str | None:
    """The output that says whether another iteration follows; "" where one always does, None where none may."""
    match again:
        case Computed(output):
            return output
        case Given(name) if name == condition:
            return ""
        case Known(array) if array.all():
            return ""
        case _:
            return None
