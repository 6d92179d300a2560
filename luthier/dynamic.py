"""DynamicModule: a model whose sizes are found as it runs, compiled segment by segment for the sizes that occur.

    while something is left of the model:
        the segment for the kinds of the values that are there (compiled now, or before) → run it → its values

A segment is compiled for the shapes of the values that it reads, and for the values that it must know (the shape of a
Reshape, the condition of an If). What was compiled is kept for the next time, up to a bound. All arithmetic is in the
compiled code; this driver hands arrays on, counts the iterations of loops and puts what they collect side by side.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Union

import numpy as np
import numpy.typing as npt

from compiler.errors import InputError, LuthierError, UnsupportedModel
from compiler.frontend.input_kinds import check_value
from compiler.frontend.loops import LoopPlan
from compiler.frontend.segment import (
    CheckedModel,
    Computed,
    Given,
    Kind,
    Known,
    NeedsInput,
    Result,
    Segment,
    TensorKind,
    content,
    import_segment,
)
from compiler.frontend.work import Work, read_by
from compiler.graph.ir import Graph
from compiler.runtime.module import Module

_LOG = logging.getLogger("luthier.dynamic")
_MOST_QUESTIONS = 8
"""Times as many keys as segments are kept: most say which value a segment must know."""
_MOST_KNOWN = 1 << 16
"""Elements of a value that code is made for."""

Array = npt.NDArray[Any]
Value = Union[Array, Known, None, list["Value"]]
"""An array, one that is the same in every run of a segment, an optional without a value, or a sequence."""


@dataclass(frozen=True, eq=False)
class _Compiled:
    segment: Segment
    module: Module | None


Key = tuple[Any, ...]


class DynamicModule:
    """Thread-safe. `run` may compile; what it compiled for the last `most` different kinds of values is kept."""

    def __init__(self, model: CheckedModel, make: Callable[[Graph], Module], most: int = 256) -> None:
        """`make`: compiles a Graph."""
        self._model, self._make, self._most = model, make, most
        self._known: OrderedDict[Key, _Compiled | Given] = OrderedDict()
        self._needed: dict[tuple[int, tuple[str, ...]], frozenset[str]] = {}
        self._lock = threading.RLock()
        self._warned = False
        self._compilations = 0

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs, in the model's order."""
        return tuple(self._model.inputs)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the outputs, in the model's order."""
        return self._model.outputs

    @property
    def segments(self) -> int:
        """How many segments are compiled and kept."""
        return sum(isinstance(known, _Compiled) for known in self._known.values())

    def prepare(self, shapes: Mapping[str, TensorKind]) -> None:
        """Compile the first segment for inputs of these kinds; raises ModelError."""
        values: dict[str, Value] = {
            n: np.broadcast_to(np.zeros((), k.dtype), k.shape) for n, k in shapes.items()
        }
        self._compiled(self._model.work, values, self.outputs, dry=True)

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Run the model: values by input name to fresh values by output name; a sequence is a list, None an optional.

        Raises:
            InputError: an input is missing or unknown, or not what the model declares.
            UnsupportedOperator: a node that is reached has no lowering.
        """
        for name in inputs.keys() ^ self._model.inputs.keys():
            what = "is missing" if name in self._model.inputs else "is unknown"
            msg = f"input {name!r} {what}; give one value for each of {', '.join(self.inputs)}"
            raise InputError(msg)
        values = {name: _value(value) for name, value in inputs.items()}
        for name, info in self._model.inputs.items():
            check_value(info, values[name])
        found = self._finished(self._model.work, values, self.outputs)
        own = {id(array) for value in values.values() for array in _arrays(value)}
        fresh: dict[str, Any] = {}
        for name in self.outputs:
            fresh[name] = _fresh(found[name], own)
        return fresh

    def close(self) -> None:
        """End the threads of all segments."""
        for known in self._known.values():
            _close(known)

    def _finished(
        self, work: Work | None, values: Mapping[str, Value], wanted: tuple[str, ...]
    ) -> dict[str, Value]:
        while True:
            values = {name: values[name] for name in self._reads(work, wanted) if name in values}
            compiled = self._compiled(work, values, wanted)
            assert compiled is not None
            values = _results(compiled, values)
            work = compiled.segment.rest
            if work is None:
                return values
            if compiled.segment.loop is not None:
                values = values | self._looped(compiled.segment.loop, values)
                work = work.after

    def _looped(self, plan: LoopPlan, values: Mapping[str, Value]) -> dict[str, Value]:
        """What a loop leaves behind."""
        limit = self._number(plan.trip_count, values, np.iinfo(np.int64).max)
        going = self._number(plan.condition, values, 1)
        # What is known in the first iteration is not in the next: one body for both.
        carried = [_unknown(self._value_of(name, values)) for name in plan.carried]
        collected = [list(_elements(values[name])) for name in plan.collected]
        iteration = plan.first
        number, condition, *own = plan.inputs

        def run(body: Work | None, wanted: Sequence[str]) -> dict[str, Value]:
            inner: dict[str, Value] = dict(values)
            inner |= {number: np.asarray(iteration, np.int64), condition: np.asarray(True)}
            inner |= zip(own, carried, strict=True)
            found = self._finished(body, inner, tuple(dict.fromkeys(wanted)))
            return {name: _unknown(value) for name, value in found.items()}

        while iteration < limit and going:
            compiled = self._compilations
            found = run(plan.body, plan.results)
            results = [found[name] for name in plan.results]
            going = int(_array(results[0]).reshape(-1)[0])
            carried = results[1 : 1 + len(carried)]
            for into, value in zip(collected, results[1 + len(carried) :], strict=True):
                into.append(value)
            iteration += 1
            # Iterations that differ in what has to be compiled would differ in every piece, too.
            while (
                going
                and (piece := plan.piece)
                and compiled == self._compilations
                and limit - iteration >= len(piece.scanned)
            ):
                found = run(piece.body, [*piece.carried, *chain.from_iterable(piece.scanned)])
                carried = [found[name] for name in piece.carried]
                for names in piece.scanned:
                    for into, name in zip(collected, names, strict=True):
                        into.append(found[name])
                iteration += len(piece.scanned)
        stacked = [_stacked(plan, k, elements) for k, elements in enumerate(collected)]
        pairs = zip(plan.outputs, [*carried, *stacked], strict=True)
        return {name: value for name, value in pairs if name}

    def _value_of(self, name: str, values: Mapping[str, Value]) -> Value:
        return values[name] if name in values else Known(self._model.constant(name))

    def _number(self, name: str, values: Mapping[str, Value], default: int) -> int:
        return int(_array(self._value_of(name, values)).reshape(-1)[0]) if name else default

    def _reads(self, work: Work | None, wanted: tuple[str, ...]) -> frozenset[str]:
        key = (work.number if work else -1, wanted)
        with self._lock:
            if key not in self._needed:
                self._needed[key] = read_by(work, wanted)
            return self._needed[key]

    def _compiled(
        self, work: Work | None, values: Mapping[str, Value], wanted: tuple[str, ...], *, dry: bool = False
    ) -> _Compiled | None:
        """The segment that comes next; None where `dry`, and it depends on values."""
        signature = tuple((name, _signature(values[name])) for name in sorted(values))
        key: Key = (work.number if work else -1, wanted, signature)
        needed: set[Given] = set()
        with self._lock:
            while True:
                found = self._known.get(key)
                if isinstance(found, _Compiled):
                    self._known.move_to_end(key)
                    return found
                if found is None:
                    self._explore(key, work, values, wanted, needed)
                    continue
                if dry:
                    return None
                needed.add(found)
                key = (*key, content(_array(_at(values, found))))

    def _explore(
        self,
        key: Key,
        work: Work | None,
        values: Mapping[str, Value],
        wanted: tuple[str, ...],
        needed: set[Given],
    ) -> None:
        """Find out what a key stands for: a segment, or a value that a segment must know."""
        kinds = {name: _kind(value, name, needed) for name, value in values.items()}
        try:
            segment = import_segment(self._model, work, kinds, wanted)
        except NeedsInput as need:
            size = _array(_at(values, need.given)).size
            if size > _MOST_KNOWN:
                msg = f"{need.why.why}: {size} elements, where code can be made for {_MOST_KNOWN}; use fewer"
                raise UnsupportedModel(msg) from None
            self._known[key] = need.given
            if len(self._known) > _MOST_QUESTIONS * self._most:
                _close(self._known.popitem(last=False)[1])
            return
        self._compilations += 1
        self._known[key] = _Compiled(segment, None if segment.graph is None else self._make(segment.graph))
        if self.segments > self._most:
            self._forget()

    def _forget(self) -> None:
        """Give up the segment that was not used for the longest time."""
        if not self._warned:
            _LOG.warning(
                "model %r was compiled for more than %d different sizes or values; those used least recently are "
                "given up and compiled again when they come back",
                self._model.name,
                self._most,
            )
            self._warned = True
        oldest = next(key for key, known in self._known.items() if isinstance(known, _Compiled))
        _close(self._known.pop(oldest))


def _close(known: _Compiled | Given) -> None:
    if isinstance(known, _Compiled) and known.module is not None:
        known.module.close()


def _value(value: Any) -> Value:
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        return [_value(element) for element in value]
    return np.asarray(value)


def _array(value: Value) -> Array:
    if isinstance(value, Known):
        return value.array
    if not isinstance(value, np.ndarray):
        msg = f"a tensor is needed where the value is {'a sequence' if value is not None else 'missing'}"
        raise InputError(msg)
    return value


def _unknown(value: Value) -> Value:
    return value.array if isinstance(value, Known) else value


def _elements(value: Value) -> Sequence[Value]:
    return value if isinstance(value, list) else ()


def _arrays(value: Value) -> Iterator[Array]:
    if isinstance(value, list):
        for element in value:
            yield from _arrays(element)
    elif value is not None:
        yield _array(value)


def _fresh(value: Value, given: set[int]) -> Any:
    """What the caller may keep and change: no array twice, and none of those whose ids are `given`."""
    if isinstance(value, list):
        return [_fresh(element, given) for element in value]
    if value is None:
        return None
    array = _array(value)
    if isinstance(value, Known) or id(array) in given:
        return array.copy()
    given.add(id(array))
    return array


def _at(values: Mapping[str, Value], given: Given) -> Value:
    value = values[given.name]
    return value if given.element is None else _elements(value)[given.element]


def _kind(value: Value, name: str, needed: set[Given], element: int | None = None) -> Kind:
    if value is None:
        return None
    if isinstance(value, list):
        return tuple(_kind(inner, name, needed, place) for place, inner in enumerate(value))
    if isinstance(value, Known):
        return value.array
    if Given(name, element) in needed:
        known = value.copy()
        known.setflags(write=False)
        return known
    return TensorKind(value.shape, value.dtype)


def _signature(value: Value) -> Key | None:
    if value is None:
        return None
    if isinstance(value, list):
        return tuple(map(_signature, value))
    if isinstance(value, Known):
        return value.content
    return (value.shape, value.dtype)


def _results(compiled: _Compiled, values: Mapping[str, Value]) -> dict[str, Value]:
    """Run a segment."""
    outputs: Mapping[str, Array] = {}
    if compiled.module is not None:
        places = compiled.segment.inputs
        given = {spec.name: _array(_at(values, places[spec.name])) for spec in compiled.module.inputs}
        outputs = compiled.module.run(given)

    def value(part: Result) -> Value:
        match part:
            case None:
                return None
            case tuple():
                return [value(element) for element in part]
            case Known():
                return part
            case Computed(output):
                return outputs[output]
            case Given():
                return _at(values, part)

    return {name: value(part) for name, part in compiled.segment.results.items()}


def _stacked(plan: LoopPlan, k: int, elements: Sequence[Value]) -> Array:
    """The tensor that a loop collects: its elements along a new first dimension."""
    if elements:
        arrays = [_array(element) for element in elements]
        if len({array.shape for array in arrays}) > 1:
            msg = f"loop {plan.name!r} collects tensors of shapes {sorted({a.shape for a in arrays})}; it must not"
            raise InputError(msg)
        return np.stack(arrays)
    kind = plan.empty[k]
    if kind is None:
        msg = f"loop {plan.name!r} collects nothing, and the model does not say what it would; export it with shapes"
        raise LuthierError(msg)
    return np.zeros((0, *kind[0]), kind[1])
