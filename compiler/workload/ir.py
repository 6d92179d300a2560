"""Workload: the structure of a Subgraph, without the values and names of the model it came from.

    workload ::= Workload(operands, stages, outputs, symbols)   symbols: those of its extents, n0, n1, ...
    operand  ::= Operand(name, shape, dtype, constant, bound)      shape: extents in memory, halo included
    stage    ::= Stage(name, axes, reduce_axes, reducer, body, target, target_indices, dtype, also)
    result   ::= Result(body, target, indices)           what a map stores besides, at each point

A Stage stores `target[target_indices] = reducer over reduce_axes of body`. Stages are in topological order; a stage's
target is an intermediate buffer (read by later stages) or an output. A map may store several results in one pass. A
reduction whose target's indices are looked up in its body (an Algorithm makes such) adds to what the stage before it
has stored, and its iterations may come to one place. Axis and operand names are canonical, layouts are part of the
index expressions, so two Subgraphs that do the same work have equal Workloads and one digest, on any platform.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any

from compiler.dtype import DType
from compiler.index import Index
from compiler.index_json import index_from_json, index_json
from compiler.packing import Parts, Shortened, Transform
from compiler.scalar import Apply, Expr, Load, expr_from_json, expr_json, walk
from compiler.scatter import find_scatter
from compiler.symbol import Axis, Size, Symbol, as_size, axis, product, row_major, static

FORMAT = 1
"""Version of the canonical form; part of the digest."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A buffer: an input, a constant (its values are known before the first run), an intermediate or an output.

    `bound`: of a constant of whole numbers, a magnitude that no value passes, where that is less than the type allows.
    """

    name: str
    shape: tuple[Index, ...]
    dtype: DType
    constant: bool = False
    bound: int | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """Shape as numbers; raises InputError where it is symbolic."""
        return tuple(static(extent, self.name) for extent in self.shape)

    @property
    def strides(self) -> tuple[int, ...]:
        """Row-major strides in elements; raises InputError where they are symbolic."""
        return tuple(static(Index.of(step), self.name) for step in row_major(self.storage))

    @property
    def storage(self) -> tuple[Size, ...]:
        """Shape as numbers where it is static, expressions elsewhere."""
        return tuple(as_size(extent) for extent in self.shape)

    @property
    def count(self) -> Index:
        """Number of elements, halo included."""
        return product(self.shape)

    @property
    def elements(self) -> int:
        """Number of elements, halo included; raises InputError where it is symbolic."""
        return static(self.count, self.name)

    @property
    def size_bytes(self) -> int:
        """Bytes in memory, halo included; raises InputError where that is symbolic."""
        return self.elements * self.dtype.size_bytes


@dataclass(frozen=True, slots=True)
class Result:
    """`target[indices] = body`, for all axes of the Stage that it belongs to."""

    body: Expr
    target: str
    indices: tuple[Index, ...]


@dataclass(frozen=True, slots=True)
class Stage:
    """`target[target_indices] = reducer over reduce_axes of body` for all axes; `reducer` None for a map.

    `dtype` is the type in which it computes and accumulates; operands and target have their own. `also`: further
    results of a map over the same axes; none of them reads what another stores.
    """

    name: str
    axes: tuple[Axis, ...]
    reduce_axes: tuple[Axis, ...]
    reducer: str | None
    body: Expr
    target: str
    target_indices: tuple[Index, ...]
    dtype: DType = DType.F32
    also: tuple[Result, ...] = ()

    @property
    def results(self) -> tuple[Result, ...]:
        """All that it stores, in canonical order."""
        return (Result(self.body, self.target, self.target_indices), *self.also)

    def with_results(self, results: tuple[Result, ...]) -> Stage:
        """The stage with others in their place."""
        first, *rest = results
        return replace(
            self, body=first.body, target=first.target, target_indices=first.indices, also=tuple(rest)
        )

    def rewritten(
        self,
        body: Callable[[Expr], Expr],
        indices: Callable[[str, tuple[Index, ...]], tuple[Index, ...]] = lambda target, indices: indices,
    ) -> Stage:
        """The stage with a function applied to the body of each result, and one to the indices of its target."""
        changed = (Result(body(r.body), r.target, indices(r.target, r.indices)) for r in self.results)
        return self.with_results(tuple(changed))

    @property
    def apart(self) -> tuple[Stage, ...]:
        """A Stage for each result, as if nothing were shared."""
        return tuple(self.with_results((result,)) for result in self.results) if self.also else (self,)

    @property
    def adds(self) -> bool:
        """Whether its iterations add to what is stored already, each at a place that it looks up."""
        return any(index.looked_up() for index in self.target_indices)

    @property
    def ranges(self) -> dict[str, int]:
        """Extent of each axis by name."""
        return {a.name: a.size for a in (*self.axes, *self.reduce_axes)}

    @property
    def points(self) -> int:
        """Iterations, reduction included."""
        count = 1
        for size in self.ranges.values():
            count *= size
        return count

    @property
    def operations(self) -> int:
        """Arithmetic operations: those of the body and one for the combination, per iteration that counts."""
        arithmetic = sum(isinstance(e, Apply) for result in self.results for e in walk(result.body))
        scatter = find_scatter(self)
        places = 1 if scatter is None else prod(self.ranges[name] for name in scatter.places)
        return (arithmetic + (self.reducer is not None)) * (self.points // places)


@dataclass(frozen=True)
class Workload:
    """What a Subgraph computes. `operands` are inputs and constants; `outputs` and `temporaries` are written.

    `transforms`: constants that stand for what is made of the model's own; an Algorithm makes them, partitioning never.
    """

    operands: tuple[Operand, ...]
    temporaries: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    stages: tuple[Stage, ...]
    symbols: tuple[Symbol, ...] = ()
    transforms: Mapping[str, Transform | Parts | Shortened] = field(default_factory=dict)

    @property
    def buffers(self) -> dict[str, Operand]:
        """Every buffer by name."""
        return {b.name: b for b in (*self.operands, *self.temporaries, *self.outputs)}

    @property
    def operations(self) -> int:
        """Arithmetic operations of one run."""
        return sum(stage.operations for stage in self.stages)

    @property
    def anchor(self) -> Stage:
        """The stage that dominates: the one with the most operations (the last of equals)."""
        return max(reversed(self.stages), key=lambda s: (s.reducer is not None, s.operations))

    @cached_property
    def digest(self) -> str:
        """64 hexadecimal digits, the same on every platform and Python version."""
        text = json.dumps(workload_json(self), separators=(",", ":"), sort_keys=True, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()


def workload_json(workload: Workload) -> dict[str, Any]:
    """Canonical JSON form; a symbolic extent is an index expression over the symbols."""
    symbols = [[s.name, s.low, s.high, list(s.hints)] for s in workload.symbols]
    return {
        **({"symbols": symbols} if symbols else {}),
        "format": FORMAT,
        "operands": [_operand_json(o) for o in workload.operands],
        "temporaries": [_operand_json(o) for o in workload.temporaries],
        "outputs": [_operand_json(o) for o in workload.outputs],
        "stages": [_stage_json(s) for s in workload.stages],
    }


def workload_from_json(data: Any) -> Workload:
    """Inverse of `workload_json`; raises ValueError, KeyError or TypeError on anything else."""
    if data["format"] != FORMAT:
        msg = f"workload format {data['format']!r}, this version reads {FORMAT}"
        raise ValueError(msg)
    operands, temporaries, outputs = (
        tuple(_operand_from_json(o) for o in data[key]) for key in ("operands", "temporaries", "outputs")
    )
    stages = tuple(_stage_from_json(s) for s in data["stages"])
    symbols = tuple(_symbol_from_json(s) for s in data.get("symbols", ()))
    return Workload(operands, temporaries, outputs, stages, symbols)


def _symbol_from_json(data: Any) -> Symbol:
    name, low, high, hints = data
    return Symbol(str(name), int(low), int(high), tuple(int(hint) for hint in hints))


def _operand_json(operand: Operand) -> list[Any]:
    shape = [index_json(extent) for extent in operand.shape]
    fields = [operand.name, shape, operand.dtype.value, operand.constant]
    return fields if operand.bound is None else [*fields, operand.bound]


def _operand_from_json(data: Any) -> Operand:
    name, sizes, dtype, constant, *bound = data
    shape = tuple(index_from_json(s) for s in sizes)
    return Operand(str(name), shape, DType(dtype), bool(constant), int(bound[0]) if bound else None)


def _stage_json(stage: Stage) -> dict[str, Any]:
    also = [[expr_json(r.body), r.target, [index_json(i) for i in r.indices]] for r in stage.also]
    return {
        "name": stage.name,
        "axes": [[a.name, index_json(a.extent)] for a in stage.axes],
        "reduce": [[a.name, index_json(a.extent)] for a in stage.reduce_axes],
        "reducer": stage.reducer,
        "body": expr_json(stage.body),
        "target": stage.target,
        "indices": [index_json(i) for i in stage.target_indices],
        "dtype": stage.dtype.value,
        **({"also": also} if also else {}),
    }


def _stage_from_json(data: Any) -> Stage:
    return Stage(
        name=str(data["name"]),
        axes=tuple(axis(n, index_from_json(s)) for n, s in data["axes"]),
        reduce_axes=tuple(axis(n, index_from_json(s)) for n, s in data["reduce"]),
        reducer=data["reducer"],
        body=expr_from_json(data["body"]),
        target=str(data["target"]),
        target_indices=tuple(index_from_json(i) for i in data["indices"]),
        dtype=DType(data["dtype"]),
        also=tuple(_result_from_json(r) for r in data.get("also", ())),
    )


def _result_from_json(data: Any) -> Result:
    body, target, indices = data
    return Result(expr_from_json(body), str(target), tuple(index_from_json(i) for i in indices))


def stage_loads(stage: Stage) -> tuple[Load, ...]:
    """All loads of the results, in order of appearance."""
    return tuple(e for result in stage.results for e in walk(result.body) if isinstance(e, Load))
