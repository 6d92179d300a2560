"""DynamicModule: a model whose sizes are found as it runs, compiled segment by segment for the sizes that occur.

    while something is left of the model:
        the segment for the kinds of the values that are there (compiled now, or before) → run it → its values

A segment is compiled for the shapes of the values that it reads, and for the values that it must know (the shape of a
Reshape, the condition of an If). What was compiled is kept for the next time, up to a bound. Where the numbers among
them differ from call to call (how many boxes were found), it is compiled once for all of them, if it has such a form.
A cheap segment that is met for the first time is evaluated by NumPy: its values may never come again. All other
arithmetic is in the compiled code; this driver hands arrays on, counts the iterations of loops and puts what they
collect side by side.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from compiler.errors import InputError, LuthierError, UnsupportedModel
from compiler.frontend.builder import NOTHING_OPEN, GraphBuilder, OpenValues
from compiler.frontend.input_kinds import check_value
from compiler.frontend.loops import LoopPlan
from compiler.frontend.segment import (
    CheckedModel,
    Given,
    Kind,
    Known,
    NeedsInput,
    Segment,
    TensorKind,
    content,
    import_segment,
    segment_for_all,
)
from compiler.frontend.work import Works, read_by
from compiler.graph.ir import Graph
from compiler.pipeline import Importing
from compiler.runtime.module import Module
from compiler.seed import SEED, drawn_seed
from compiler.symbol import Symbol
from compiler.workload.generalise import DiffersError, Values, values_up_to
from luthier.compiled import CompiledSegment
from luthier.evaluated import Evaluated, is_cheap
from luthier.kept import Kept, Left, Place
from luthier.paths import Crossing, Paths, Step
from luthier.values import (
    Key,
    Value,
    array_of,
    arrays_of,
    elements_of,
    fresh,
    is_open,
    kind_of,
    signature,
    stacked,
    unknown,
    value_at,
    value_of,
)
from luthier.varying import Numbers, Pattern, Seen, Structure, shape_of

_LOG = logging.getLogger("luthier.dynamic")
_MOST_SEEN = 1 << 11
"""Structures of values whose sizes are remembered."""
_MOST_MAKING_S = 10.0
"""How long a run makes code, where evaluating would do."""
_MOST_KNOWN = 1 << 16
"""Elements of a value that code is made for."""


class DynamicModule:
    """Thread-safe. `run` may compile; what it compiled for the last `most` different kinds of values is kept."""

    def __init__(
        self,
        model: CheckedModel,
        make: Callable[[Graph], Module],
        make_for_all: Callable[[tuple[Symbol, ...], Sequence[Values], Importing], Module],
        most: int = 256,
        *,
        patience_s: float = 0.0,
    ) -> None:
        """`make`: compiles a Graph; `make_for_all`: what `lower_for_all` makes of its arguments.

        `patience_s`: how long NumPy evaluates cheap segments of changing sizes before there is code for them.
        """
        self._model, self._make, self._make_for_all = model, make, make_for_all
        self._patience_s, self._making_s = patience_s, 0.0
        self._kept = Kept(model.name, most)
        self._works = Works(model.work)
        self._paths, self._given_up = Paths(), 0
        self._seen: dict[tuple[Place, frozenset[Given], Structure], Seen] = {}
        self._needed: dict[Place, frozenset[str]] = {}
        self._lock = threading.RLock()

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
        return self._kept.coded

    @property
    def evaluated(self) -> int:
        """How many segments NumPy evaluates: their values have not come back yet, or there is no room for code."""
        return self._kept.evaluated

    def prepare(self, shapes: Mapping[str, TensorKind]) -> None:
        """Compile the first segment for inputs of these kinds; raises ModelError."""
        values: dict[str, Value] = {
            n: np.broadcast_to(np.zeros((), k.dtype), k.shape) for n, k in shapes.items()
        }
        self._compiled(Left(self._model.work, self.outputs), values, [], dry=True)

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Run the model: values by input name to fresh values by output name; a sequence is a list, None an optional.

        Raises:
            InputError: an input is missing or unknown, or not what the model declares.
            UnsupportedOperator: a node that is reached has no lowering.
        """
        if SEED in self._model.inputs and SEED not in inputs:
            inputs = {**inputs, SEED: drawn_seed()}
        for name in inputs.keys() ^ self._model.inputs.keys():
            what = "is missing" if name in self._model.inputs else "is unknown"
            msg = f"input {name!r} {what}; give one value for each of {', '.join(self.inputs)}"
            raise InputError(msg)
        values = {name: value_of(inputs[name]) for name in self._model.inputs}
        key = tuple(map(signature, values.values()))
        left = Left(self._model.work, self.outputs)
        first = self._paths.start.find(key, values)
        if first is None:  # else inputs of these kinds were checked before
            for name, info in self._model.inputs.items():
                check_value(info, values[name])
        self._making_s = 0.0
        found = self._finished(left, self._paths.start, key, values)
        own = {id(array) for value in values.values() for array in arrays_of(value)}
        return {name: fresh(found[name], own) for name in self.outputs}

    def close(self) -> None:
        """End the threads of all segments."""
        self._kept.close()

    def _finished(
        self, left: Left, crossing: Crossing, key: Key, values: Mapping[str, Value]
    ) -> dict[str, Value]:
        """The values that are wanted. `crossing`, `key`: where runs from here go on, and how; see `Paths`."""
        while True:
            step = self._step(left, crossing, key, values)
            found = step.ready.run(values)
            work, loop = step.compiled.segment.rest, step.compiled.segment.loop
            if work is None:
                return found
            crossing, key = step.then, ()
            if loop is not None:
                looped = self._looped(loop, step, found)
                key = tuple(map(signature, looped.values()))
                found |= looped
                work = work.after
            left, values = Left(work, left.wanted), found

    def _looped(self, plan: LoopPlan, step: Step, values: Mapping[str, Value]) -> dict[str, Value]:
        """What a loop leaves behind. `step`: the one that asks for it."""
        limit = self._number(plan.trip_count, values, np.iinfo(np.int64).max)
        going = self._number(plan.condition, values, 1)
        # What is known in the first iteration is not in the next: one body for both.
        carried = [unknown(self._value_of(name, values)) for name in plan.carried]
        # Of each collection the tensors that iterations gave, or several of them along a new first dimension.
        collected = [[array_of(e)[None] for e in elements_of(values[name])] for name in plan.collected]
        left = Left(plan.body, tuple(dict.fromkeys(plan.results)))
        number, condition, *own = plan.inputs
        iteration = plan.first
        while iteration < limit and going:
            inner = {**values, number: np.asarray(iteration, np.int64), condition: np.asarray(True)}
            inner |= zip(own, carried, strict=True)
            key = tuple(map(signature, carried))
            iterations = self._step(left, step.bodies, key, inner).iterations(plan)
            if iterations is not None:
                many = iterations.run(inner, carried, iteration, limit - iteration)
                going, carried, added, runs = many.going, many.carried, many.scanned, many.runs
            else:
                found = self._finished(left, step.bodies, key, inner)
                results = [unknown(found[name]) for name in plan.results]
                going = bool(array_of(results[0]).reshape(-1)[0])
                carried = results[1 : 1 + len(carried)]
                added, runs = [array_of(value)[None] for value in results[1 + len(carried) :]], 1
            iteration += runs
            for into, array in zip(collected, added, strict=True):
                into.append(array)
        tensors = [stacked(arrays, plan.name, plan.empty[k]) for k, arrays in enumerate(collected)]
        pairs = zip(plan.outputs, [*carried, *tensors], strict=True)
        return {name: value for name, value in pairs if name}

    def _value_of(self, name: str, values: Mapping[str, Value]) -> Value:
        return values[name] if name in values else Known(self._model.constant(name))

    def _number(self, name: str, values: Mapping[str, Value], default: int) -> int:
        return int(array_of(self._value_of(name, values)).reshape(-1)[0]) if name else default

    def _reads(self, left: Left) -> frozenset[str]:
        with self._lock:
            if left.place not in self._needed:
                self._needed[left.place] = read_by(left.work, left.wanted)
            return self._needed[left.place]

    def _step(self, left: Left, crossing: Crossing, key: Key, values: Mapping[str, Value]) -> Step:
        """The step that comes next: one that was taken before from this crossing, or one to remember."""
        step = crossing.find(key, values)
        if step is None:
            asked: list[Given] = []
            with self._lock:
                compiled = self._compiled(left, values, asked)
                assert compiled is not None
                step = Step(compiled.ready({n: values[n] for n in self._reads(left) if n in values}))
                if self._kept.given_up != self._given_up:
                    self._given_up = self._kept.given_up
                    self._paths.clear()
                if compiled.is_final:
                    self._paths.add(crossing, key, asked, values, step)
        with self._lock:
            self._kept.touch(step.compiled)
        return step

    def _compiled(
        self, left: Left, values: Mapping[str, Value], asked: list[Given], *, dry: bool = False
    ) -> CompiledSegment | None:
        """The segment that comes next; None where `dry`, and it depends on values.

        `asked`: is given the values on whose content it depends, in the order in which they were looked at.
        """
        values = {name: values[name] for name in self._reads(left) if name in values}
        signatures = tuple((name, signature(values[name])) for name in sorted(values))
        key: Key = (*left.place, signatures)
        needed: set[Given] = set()
        with self._lock:
            while True:
                found = self._kept.get(key)
                if isinstance(found, CompiledSegment):
                    return self._with_code(key, found, left, values)
                if found is None:
                    asked += [g for g in self._kept.values_asked(left.place) if is_open(values, g)]
                    known = self._kept.for_all(left.place, values)
                    if known is not None:
                        return known
                    self._explore(key, left, values, needed, dry=dry)
                    continue
                if dry:
                    return None
                needed.add(found)
                asked.append(found)
                key = (*key, content(array_of(value_at(values, found))))

    def _explore(
        self,
        key: Key,
        left: Left,
        values: Mapping[str, Value],
        needed: set[Given],
        *,
        dry: bool,
    ) -> None:
        """Find out what a key stands for: a segment, or a value that a segment must know. `dry`: for later runs."""
        kinds = {name: kind_of(value, name, needed) for name, value in values.items()}
        try:
            segment = self._imported(left, kinds)[0]
        except NeedsInput as need:
            size = array_of(value_at(values, need.given)).size
            if size > _MOST_KNOWN:
                msg = f"{need.why.why}: {size} elements, where code can be made for {_MOST_KNOWN}; use fewer"
                raise UnsupportedModel(msg) from None
            return self._kept.add(key, need.given)
        if segment.graph is None:
            return self._kept.add(key, CompiledSegment(segment, None, frozenset(needed)))
        shape = shape_of(values, needed)
        seen = self._seen_of((left.place, frozenset(needed), shape.structure))
        seen.add(shape)
        cheap = not dry and is_cheap(segment.graph)
        evaluated = CompiledSegment(segment, Evaluated(segment.graph, seen), frozenset(needed))
        if cheap and (seen.evaluated_s < self._patience_s or self._is_making_too_long()):
            return self._kept.add(key, evaluated)
        self._make_code(key, evaluated, left, values)
        return None

    def _make_code(
        self,
        key: Key,
        evaluated: CompiledSegment,
        left: Left,
        values: Mapping[str, Value],
        *,
        again: bool = False,
    ) -> CompiledSegment:
        """Code for all sizes of a segment, where several occurred and it has such a form, else for these sizes.

        `again`: the sizes came back. Cheap ones that did not, and have no common form, stay evaluated.
        """
        assert isinstance(evaluated.module, Evaluated)
        seen, start_s = evaluated.module.seen, time.monotonic()
        pattern = seen.pattern(shape_of(values, evaluated.needed), evaluated.needed)
        made = None if pattern is None else self._made_for_all(left, values, pattern)
        if pattern is not None and made is None:
            seen.has_none(pattern)
        if made is not None:
            self._kept.add_for_all(left.place, made)
            self._kept.drop(key)
        else:
            stays = seen.many and not again and is_cheap(evaluated.module.graph)
            made = evaluated if stays else replace(evaluated, module=self._make(evaluated.module.graph))
            self._kept.add(key, made)
        self._making_s += time.monotonic() - start_s
        return made

    def _is_making_too_long(self) -> bool:
        """Whether this run has made code for so long that the rest is evaluated, where that is possible."""
        return self._patience_s > 0 and self._making_s > _MOST_MAKING_S

    def _with_code(
        self,
        key: Key,
        found: CompiledSegment,
        left: Left,
        values: Mapping[str, Value],
    ) -> CompiledSegment:
        """A segment that was evaluated is compiled when it is used again, while there is room for its code."""
        if not isinstance(found.module, Evaluated) or not found.module.used:
            return found
        known = self._kept.for_all(left.place, values)
        if known is not None:
            self._kept.drop(key)
            return known
        if not self._kept.has_room():
            return found
        return self._make_code(key, found, left, values, again=True)

    def _seen_of(self, kind: tuple[Place, frozenset[Given], Structure]) -> Seen:
        if len(self._seen) > _MOST_SEEN:
            self._seen.clear()
        return self._seen.setdefault(kind, Seen())

    def _imported(
        self,
        left: Left,
        kinds: Mapping[str, Kind],
        open_values: OpenValues = NOTHING_OPEN,
    ) -> tuple[Segment, GraphBuilder]:
        """`import_segment`; what comes after it is the same object as after other sizes, if it is alike."""
        segment, builder = import_segment(self._model, left.work, kinds, left.wanted, open_values)
        plan = segment.loop
        if plan is not None:
            plan = replace(plan, body=self._works.one(plan.body))
        return replace(segment, rest=self._works.one(segment.rest), loop=plan), builder

    def _made_for_all(
        self, left: Left, values: Mapping[str, Value], pattern: Pattern
    ) -> CompiledSegment | None:
        """A segment for all sizes of a pattern; None where it has no such form."""
        segments: dict[Numbers, Segment] = {}

        def imported(sizes: Values, open_values: OpenValues) -> tuple[Graph, GraphBuilder]:
            try:
                segment, builder = self._imported(left, pattern.kinds(values, sizes), open_values)
            except NeedsInput as need:
                raise UnsupportedModel(str(need)) from need
            segments[tuple(sizes.values())] = segment
            if segment.graph is None:
                msg = "nothing is computed"
                raise DiffersError(msg)
            return segment.graph, builder

        try:
            points = values_up_to(pattern.symbols)
            module = self._make_for_all(pattern.symbols, points, imported)
            common = segment_for_all([segments[tuple(point.values())] for point in points], points)
        except (LuthierError, DiffersError) as error:
            _LOG.info("model %r: a segment has no form for all sizes (%s)", self._model.name, error)
            return None
        made = CompiledSegment(common, module, pattern.needed, pattern)
        if made.sizes(values) is None:
            made.close()
            return None
        return made
