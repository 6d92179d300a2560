"""Segments: parts of a model for which code can be made, as far as what is known reaches.

A node may need a value before code is made for it: a shape that is an input of the model, the condition of a branch,
the number of elements that are not zero. Lowering goes up to such a node; what is before it is a Segment. When that has
run, the value is there, and the next Segment is lowered for it.

    kind ::= TensorKind(shape, dtype) | Array (known) | None (an optional without a value) | tuple of kinds (a sequence)
    result ::= Given(name, element) | Computed(output) | Known(array) | Sized(numbers) | None | tuple of results

What is lowered for several sizes may have one form for all of them: `segment_for_all` puts it together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Union

import numpy as np
import numpy.typing as npt
import onnx

from compiler.dtype import DType
from compiler.errors import UnsupportedModel
from compiler.frontend.builder import NOTHING_OPEN, GraphBuilder, OpenValues
from compiler.frontend.call import NeedsValue
from compiler.frontend.check import check_model, opsets
from compiler.frontend.importer import prepared
from compiler.frontend.loops import LoopPlan, NeedsLoop
from compiler.frontend.lower import Lowered
from compiler.frontend.read import read_source
from compiler.frontend.tensors import TensorReader
from compiler.frontend.work import Work, defined_by, read_by, work_of
from compiler.graph.ir import Graph
from compiler.index import Index
from compiler.symbol import as_size, size_at
from compiler.workload.generalise import DiffersError, Values, polynomial, same_array

Array = npt.NDArray[Any]
_SHORT = 64
"""Bytes that are their own digest."""


@dataclass(frozen=True, slots=True)
class TensorKind:
    """What code is made for: a tensor whose elements differ from run to run."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


Kind = Union[TensorKind, Array, None, tuple["Kind", ...]]


@dataclass(frozen=True, slots=True)
class Given:
    """A value of the segment's environment, or an element of one that is a sequence."""

    name: str
    element: int | None = None


@dataclass(frozen=True, slots=True)
class Computed:
    """An output of the segment's graph."""

    output: str


def content(array: Array) -> tuple[Any, ...]:
    """What two arrays have in common that are alike in every element; to look up by."""
    data = np.ascontiguousarray(array).tobytes()
    return (array.shape, array.dtype, data if len(data) <= _SHORT else hashlib.sha256(data).digest())


@dataclass(frozen=True, eq=False)
class Known:
    """A value that is known before the segment runs."""

    array: Array

    @cached_property
    def content(self) -> tuple[Any, ...]:
        """`content` of the array; made once, since a loop asks in every iteration."""
        return content(self.array)


@dataclass(frozen=True, slots=True)
class Sized:
    """Whole numbers that follow from the sizes for which a segment of any size runs, such as a shape."""

    numbers: tuple[Index, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def at(self, sizes: Mapping[str, int]) -> Known:
        """The numbers for these sizes."""
        numbers = [size_at(as_size(number), sizes) for number in self.numbers]
        return Known(np.array(numbers, self.dtype).reshape(self.shape))


Result = Union[Given, Computed, Known, Sized, None, tuple["Result", ...]]


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """What is computed next, and what then.

    Attributes:
        graph: None where nothing is computed.
        inputs: where each input of the graph comes from.
        results: what each name that is needed later stands for.
        rest: what comes after the segment; None at the end of the model.
        loop: what the first node of `rest` asks a driver to do; `rest.after` follows then.
    """

    graph: Graph | None
    inputs: Mapping[str, Given]
    results: Mapping[str, Result]
    rest: Work | None
    loop: LoopPlan | None


class NeedsInput(Exception):
    """A segment must know the value of one of its inputs."""

    def __init__(self, given: Given, why: NeedsValue) -> None:
        """`why`: the node and what it needs."""
        super().__init__(str(why))
        self.given, self.why = given, why


@dataclass(frozen=True, eq=False)
class CheckedModel:
    """A checked model, ready to be lowered segment by segment.

    Attributes:
        inputs, outputs: as the model declares them; an input that has a default value is not among them.
        work: all nodes.
    """

    name: str
    inputs: Mapping[str, onnx.ValueInfoProto]
    outputs: tuple[str, ...]
    work: Work | None
    tensors: TensorReader
    initialisers: Mapping[str, onnx.TensorProto]
    _constants: dict[str, Array] = field(default_factory=dict)

    def constant(self, name: str) -> Array:
        """An initialiser."""
        if name not in self._constants:
            self._constants[name] = self.tensors.initialiser(self.initialisers[name])
        return self._constants[name]


def checked_model(model: str | Path | bytes | onnx.ModelProto) -> CheckedModel:
    """Read and check a model; raises ModelError."""
    source = read_source(model)
    check_model(source.model)
    proto = prepared(source.model)
    initialisers = {tensor.name: tensor for tensor in proto.graph.initializer}
    return CheckedModel(
        source.name,
        {info.name: info for info in proto.graph.input if info.name not in initialisers},
        tuple(output.name for output in proto.graph.output),
        work_of(proto.graph.node, opsets(proto)),
        TensorReader(source.folder, source.data),
        initialisers,
    )


def import_segment(
    model: CheckedModel,
    work: Work | None,
    environment: Mapping[str, Kind],
    wanted: Sequence[str],
    open_values: OpenValues = NOTHING_OPEN,
) -> tuple[Segment, GraphBuilder]:
    """Lower what can be lowered; the segment, and the builder that knows its values.

    Args:
        model: has the initialisers.
        work: what is left of it, or of one of its subgraphs.
        environment: what each value that `work` may read is.
        wanted: the values that must be there after the last segment.
        open_values: see `GraphBuilder`.

    Raises:
        NeedsInput: nothing can be lowered before a value of the environment is known.
        UnsupportedOperator: there is no lowering for a node.
        ModelError: a node is not valid.
    """
    reserved = defined_by(work).union(environment, model.initialisers, wanted)
    builder = GraphBuilder(reserved, open_values, partial=True)
    inputs: dict[str, Given] = {}
    for name, kind in environment.items():
        _declare(builder, inputs, name, kind)
    for name in read_by(work, wanted) & model.initialisers.keys() - environment.keys():
        builder.add_constant(name, model.constant(name))
    lowered = Lowered(work, builder, model.tensors)
    loop = None
    try:
        lowered.run()
    except NeedsValue as need:
        if need.value in inputs:
            raise NeedsInput(inputs[need.value], need) from need
        if lowered.rest is work:
            raise
    except NeedsLoop as need:
        loop = need.plan
    live = read_by(lowered.rest, wanted)
    defined = {name for name in live if _is_defined(builder, name)} - model.initialisers.keys()
    if lowered.rest is None:
        _check_defined(wanted, builder)
        defined |= set(wanted)
    outputs: dict[str, None] = {}
    results = {name: _result(builder, inputs, outputs, name) for name in sorted(defined)}
    graph = builder.graph(list(outputs), model.name) if outputs else None
    return Segment(graph, inputs, results, lowered.rest, loop), builder


def segment_for_all(segments: Sequence[Segment], points: Sequence[Values]) -> Segment:
    """The form that segments of several sizes have in common, without its graph.

    Args:
        segments: one per point, of Work that is one object where it is alike (`Works`).
        points: values of the symbols, those that it was lowered for.

    Raises:
        DiffersError: they differ in more than whole numbers that are polynomials of the symbols.
    """
    first = segments[0]
    for other in segments[1:]:
        alike = (other.inputs, other.rest, other.loop) == (first.inputs, first.rest, first.loop)
        if not alike or list(other.results) != list(first.results):
            msg = "what follows depends on the size"
            raise DiffersError(msg)
    results = {
        name: _result_for_all([segment.results[name] for segment in segments], points, name)
        for name in first.results
    }
    return replace(first, graph=None, results=results)


def _result_for_all(results: Sequence[Result], points: Sequence[Values], name: str) -> Result:
    first = results[0]
    known = [result.array for result in results if isinstance(result, Known)]
    if len(known) < len(results):
        if any(other != first for other in results[1:]):
            msg = f"{name!r} is another value for each size"
            raise DiffersError(msg)
        return first
    if all(same_array(known[0], array) for array in known[1:]):
        return first
    if len({(array.shape, array.dtype) for array in known}) > 1 or known[0].dtype.kind not in "iu":
        msg = f"the constant {name!r} depends on the size"
        raise DiffersError(msg)
    columns = zip(*(map(int, array.reshape(-1)) for array in known), strict=True)
    numbers = tuple(polynomial(column, points, name) for column in columns)
    return Sized(numbers, known[0].shape, known[0].dtype)


def _declare(builder: GraphBuilder, inputs: dict[str, Given], name: str, kind: Kind) -> None:
    match kind:
        case None:
            builder.absent.add(name)
        case tuple():
            names = [builder.reserve(f"{name}.{place}") for place in range(len(kind))]
            builder.sequences[name] = tuple(names)
            for place, (own, element) in enumerate(zip(names, kind, strict=True)):
                _declare_tensor(builder, inputs, own, element, Given(name, place))
        case _:
            _declare_tensor(builder, inputs, name, kind, Given(name))


def _declare_tensor(
    builder: GraphBuilder, inputs: dict[str, Given], name: str, kind: Kind, place: Given
) -> None:
    match kind:
        case TensorKind(shape, dtype) if 0 in shape:
            builder.add_constant(name, np.zeros(shape, dtype))
        case TensorKind(shape, dtype):
            try:
                builder.add_input(name, shape, DType.from_numpy(dtype))
            except KeyError:
                msg = f"value {place.name!r} has element type {dtype}, which Luthier does not support"
                msg += "; use numbers of another type"
                raise UnsupportedModel(msg) from None
            inputs[name] = place
        case np.ndarray():
            builder.add_constant(name, kind)
        case _:
            msg = f"value {place.name!r} is a sequence of what are no tensors, which Luthier does not support"
            msg += "; use tensors"
            raise UnsupportedModel(msg)


def _is_defined(builder: GraphBuilder, name: str) -> bool:
    value = builder.resolve(name)
    return value in builder.shapes or value in builder.sequences or value in builder.absent


def _check_defined(wanted: Sequence[str], builder: GraphBuilder) -> None:
    for name in wanted:
        if not _is_defined(builder, name):
            msg = f"output {name!r} is optional and Luthier does not support it"
            msg += "; export the model without it"
            raise UnsupportedModel(msg)


def _result(
    builder: GraphBuilder, inputs: Mapping[str, Given], outputs: dict[str, None], name: str
) -> Result:
    value = builder.resolve(name)
    if value in builder.absent:
        return None
    if value in builder.sequences:
        return tuple(_result(builder, inputs, outputs, element) for element in builder.sequences[value])
    if value in builder.constants:
        return Known(builder.constants[value])
    if value in inputs:
        return inputs[value]
    outputs[value] = None
    return Computed(value)
