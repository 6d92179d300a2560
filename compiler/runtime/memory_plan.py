"""Memory plan: where every value of a Program lives during a run.

Values that are alive at different times share one arena (greedy by size: each takes the lowest offset that is free
during its whole life). A value whose producer leaves a border of zeros (a halo) lives in zeroed memory of its own; two
such values share it only where their borders are the same, so that the border is zeroed once, when memory is made.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from compiler.errors import CompileError
from compiler.workload.ir import Operand
from compiler.workload.program import Program, Subgraph

ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Place:
    """Byte offset in the arena, or in the zeroed memory."""

    zeroed: bool
    offset: int


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Sizes in bytes, and the place of each intermediate value."""

    arena_bytes: int
    zeroed_bytes: int
    places: dict[str, Place]


@dataclass(frozen=True, slots=True)
class _Life:
    value: str
    first: int
    last: int
    size: int
    border: Hashable | None


def plan_memory(program: Program, scratch: Sequence[Mapping[str, int]]) -> MemoryPlan:
    """Place every value that is neither an input, an output nor a constant of the model.

    `scratch`: per Subgraph, bytes of each scratch buffer of its kernel; they live during that kernel only.
    """
    lives = _lives(program)
    for time, sizes in enumerate(scratch):
        lives += [
            _Life(scratch_value(time, name), time, time, _aligned(size), None) for name, size in sizes.items()
        ]
    arena, places = _place_arena([life for life in lives if life.border is None])
    zeroed, zeroed_places = _place_zeroed([life for life in lives if life.border is not None])
    return MemoryPlan(arena, zeroed, places | zeroed_places)


def scratch_value(call: int, name: str) -> str:
    """The name under which a kernel's scratch buffer is placed; no value of a model has such a name."""
    return f"{call}\0{name}"


def _lives(program: Program) -> list[_Life]:
    own = program.buffers.keys() - program.inputs.keys() - program.outputs.keys()
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    borders: dict[str, Hashable | None] = {}
    for time, subgraph in enumerate(program.subgraphs):
        for value in subgraph.bindings.values():
            last[value] = time
        for output in subgraph.workload.outputs:
            value = subgraph.bindings[output.name]
            first[value] = time
            borders[value] = _border(subgraph, output)
    lives = []
    for value in sorted(own & last.keys()):
        if value not in first:
            msg = f"value {value!r} is read but nothing computes it; please report the model"
            raise CompileError(msg)
        size = _aligned(program.buffers[value].size_bytes)
        lives.append(_Life(value, first[value], last[value], size, borders[value]))
    return lives


def _border(subgraph: Subgraph, output: Operand) -> Hashable | None:
    """What stays zero in an output: None where everything is written, else the geometry."""
    stage = next(s for s in subgraph.workload.stages if s.target == output.name)
    written = 1
    for axis in stage.axes:
        written *= axis.size
    if written == output.elements:
        return None
    return (output.sizes, output.dtype, stage.target_indices, tuple(a.size for a in stage.axes))


def _place_arena(lives: list[_Life]) -> tuple[int, dict[str, Place]]:
    placed: list[tuple[_Life, int]] = []
    for life in sorted(lives, key=lambda item: (-item.size, item.first, item.value)):
        taken = sorted((offset, offset + o.size) for o, offset in placed if _overlap(o, life))
        offset = 0
        for start, end in taken:
            if offset + life.size <= start:
                break
            offset = max(offset, end)
        placed.append((life, offset))
    total = max((offset + life.size for life, offset in placed), default=0)
    return total, {life.value: Place(zeroed=False, offset=offset) for life, offset in placed}


def _place_zeroed(lives: list[_Life]) -> tuple[int, dict[str, Place]]:
    slots: list[tuple[Hashable, int, list[_Life]]] = []
    places: dict[str, Place] = {}
    total = 0
    for life in sorted(lives, key=lambda item: (item.first, item.value)):
        for border, offset, users in slots:
            if border == life.border and not any(_overlap(user, life) for user in users):
                users.append(life)
                places[life.value] = Place(zeroed=True, offset=offset)
                break
        else:
            slots.append((life.border, total, [life]))
            places[life.value] = Place(zeroed=True, offset=total)
            total += life.size
    return total, places


def _overlap(a: _Life, b: _Life) -> bool:
    return a.first <= b.last and b.first <= a.last


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
