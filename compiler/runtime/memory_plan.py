"""Memory plan: where every value of a Program lives during a run.

Values that are alive at different times share one arena. It is planned greedily: those that take the most bytes
for the longest time first, and each takes the lowest offset that is free during its whole life; large ones begin at
other places of a page than what they are computed from. A value that is computed element by element from one that
nobody reads any more takes its place (compiler/loop/in_place.py). The border of zeros (halo) that a producer leaves
around its value is cleared in each run: that costs less than the caches that a value of its own memory would need.

Sizes of values may depend on the Program's symbols. Then `lives` is kept, and placed anew for each size that is run.
There, and where a border is in too many pieces, a value with a border lives in zeroed memory of its own; two such
values share it only where their borders are the same, so that the border is zeroed once, when memory is made.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from compiler.codegen.clear import Strip
from compiler.errors import CompileError
from compiler.index import Index
from compiler.runtime.borders import border_strips
from compiler.symbol import product, size_at
from compiler.target import PAGE_BYTES
from compiler.workload.ir import Operand, Stage
from compiler.workload.program import ALIGNMENT, STAGGER, STAGGERED_BYTES, Program, Subgraph


@dataclass(frozen=True, slots=True)
class Place:
    """Byte offset in the arena, or in the zeroed memory."""

    zeroed: bool
    offset: int


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Sizes in bytes, the place of each intermediate value, and what is to be cleared of some when they are made."""

    arena_bytes: int
    zeroed_bytes: int
    places: dict[str, Place]
    borders: Mapping[str, tuple[Strip, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Life:
    """A value that needs memory.

    Attributes:
        first, last: the Subgraphs, by position, between which it lives (both included).
        size_bytes: over the Program's symbols.
        border: equal for values with the same border of zeros; None where all of it is written.
    """

    value: str
    first: int
    last: int
    size_bytes: Index
    border: int | None


def plan_memory(
    program: Program,
    scratch: Sequence[Mapping[str, Index]],
    replaces: Sequence[Mapping[str, Sequence[str]]] = (),
) -> MemoryPlan:
    """Place the values of a static Program; see `lives`.

    `replaces`: per Subgraph, for outputs of its kernel the operands whose memory they may take.
    """
    borders = _clearable(program)
    values = [replace(v, border=None) if v.value in borders else v for v in lives(program, scratch)]
    plain = {v.value: v for v in values if v.border is None and v.value not in borders}
    others = _taken_over(program, plain, replaces)
    plan = place_all(_joined(values, others), {})
    places = {**plan.places, **{name: plan.places[_first(name, others)] for name in others}}
    return replace(plan, places=places, borders=borders)


def _taken_over(
    program: Program, plain: Mapping[str, Life], replaces: Sequence[Mapping[str, Sequence[str]]]
) -> dict[str, str]:
    """For each value that takes the memory of another, which nobody reads any more, that other one.

    `plain`: those without a border.
    """
    own = {name: life for name, life in plain.items() if name not in program.wholes.values()}
    found: dict[str, str] = {}
    for time, (subgraph, outputs) in enumerate(zip(program.subgraphs, replaces, strict=False)):
        bound = [program.home(value) for value in subgraph.bindings.values()]
        for output, operands in outputs.items():
            value = subgraph.bindings[output]
            others = (subgraph.bindings[operand] for operand in operands if not subgraph.starts.get(operand))
            fits = (
                other
                for other in others
                if {value, other} <= own.keys()
                and own[other].last == time
                and own[value].first == time
                and own[value].size_bytes == own[other].size_bytes
                and bound.count(other) == 1
                and other not in found.values()
            )
            if (other := next(fits, None)) is not None:
                found[value] = other
    return found


def _joined(values: Sequence[Life], others: Mapping[str, str]) -> list[Life]:
    """One life for values that follow each other in one place."""
    last = {v.value: v.last for v in values}
    for name in others:
        first = _first(name, others)
        last[first] = max(last[first], last[name])
    return [replace(v, last=last[v.value]) for v in values if v.value not in others]


def _first(value: str, others: Mapping[str, str]) -> str:
    while value in others:
        value = others[value]
    return value


def _clearable(program: Program) -> dict[str, tuple[Strip, ...]]:
    """The border of each value that has one of few pieces; equal geometries are looked at once.

    What several Subgraphs store in parts is not among them: none of them knows when the others have run.
    """
    wholes = set(program.wholes.values())
    known: dict[Hashable, tuple[Strip, ...] | None] = {}
    found: dict[str, tuple[Strip, ...]] = {}
    for subgraph in program.subgraphs:
        for output in subgraph.workload.outputs:
            value, border = subgraph.bindings[output.name], _border(subgraph, output)
            if border is None or program.home(value) != value or value in wholes:
                continue
            if border not in known:
                known[border] = border_strips(output, _producer(subgraph, output))
            strips = known[border]
            if strips is not None:
                found[value] = strips
    return found


def lives(program: Program, scratch: Sequence[Mapping[str, Index]]) -> tuple[Life, ...]:
    """Every value that is neither an input, an output nor a constant of the model.

    `scratch`: per Subgraph, bytes of each scratch buffer of its kernel; they live during that kernel only.
    """
    found = _lives(program)
    for time, sizes in enumerate(scratch):
        found += [Life(scratch_value(time, name), time, time, size, None) for name, size in sizes.items()]
    return tuple(found)


def place_all(values: Sequence[Life], sizes: Mapping[str, int]) -> MemoryPlan:
    """Place values under the sizes that symbols have."""
    placed = [
        _Placed(v.value, v.first, v.last, _aligned(size_at(v.size_bytes, sizes)), v.border) for v in values
    ]
    arena, places = _place_arena([life for life in placed if life.border is None])
    zeroed, zeroed_places = _place_zeroed([life for life in placed if life.border is not None])
    return MemoryPlan(arena, zeroed, places | zeroed_places)


@dataclass(frozen=True, slots=True)
class _Placed:
    value: str
    first: int
    last: int
    size: int
    border: int | None

    @property
    def time(self) -> int:
        """How many Subgraphs it lives for."""
        return self.last - self.first + 1

    def begin(self, offset: int) -> int:
        """The first offset from this one on at which it may begin."""
        if self.size < STAGGERED_BYTES:
            return offset
        return offset + (self.first * STAGGER - offset) % PAGE_BYTES


def scratch_value(call: int, name: str) -> str:
    """The name under which a kernel's scratch buffer is placed; no value of a model has such a name."""
    return f"{call}\0{name}"


def _lives(program: Program) -> list[Life]:
    own = program.buffers.keys() - program.inputs.keys() - program.outputs.keys()
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    borders: dict[str, Hashable | None] = {}
    numbers: dict[Hashable, int] = {}
    for time, subgraph in enumerate(program.subgraphs):
        for value in subgraph.bindings.values():
            last[program.home(value)] = time
        for output in subgraph.workload.outputs:
            value = subgraph.bindings[output.name]
            first.setdefault(program.home(value), time)
            borders[value] = _border(subgraph, output)
    for whole in program.wholes.values():
        if program.home(whole) == whole:
            borders[whole] = _border_of_whole(program, whole)
    found = []
    for value in sorted({program.home(value) for value in own} & last.keys()):
        if value not in first:
            msg = f"value {value!r} is read but nothing computes it; please report the model"
            raise CompileError(msg)
        buffer, border = program.buffers[value], borders[value]
        number = None if border is None else numbers.setdefault(border, len(numbers))
        size = buffer.count * buffer.dtype.size_bytes
        found.append(Life(value, first[value], last[value], size, number))
    return found


def _border(subgraph: Subgraph, output: Operand) -> Hashable | None:
    """What stays zero in an output: None where everything is written, else the geometry."""
    stage = _producer(subgraph, output)
    if product(axis.extent for axis in stage.axes) == output.count:
        return None
    symbols = tuple(subgraph.symbols.values())
    return (output.shape, output.dtype, stage.target_indices, tuple(a.extent for a in stage.axes), symbols)


def _border_of_whole(program: Program, value: str) -> Hashable | None:
    """The same of a value that several Subgraphs store in parts."""
    layout, buffer = program.layouts[value], program.buffers.get(value)
    return (layout, buffer.shape, buffer.dtype) if buffer is not None and layout.has_halo else None


def _producer(subgraph: Subgraph, output: Operand) -> Stage:
    stages = (single for stage in subgraph.workload.stages for single in stage.apart)
    return next(stage for stage in stages if stage.target == output.name)


def _place_arena(lives: list[_Placed]) -> tuple[int, dict[str, Place]]:
    placed: list[tuple[_Placed, int]] = []
    for life in sorted(lives, key=lambda item: (-item.size * item.time, item.first, item.value)):
        taken = sorted((offset, offset + o.size) for o, offset in placed if _overlap(o, life))
        offset = life.begin(0)
        for start, end in taken:
            if offset + life.size <= start:
                break
            offset = max(offset, life.begin(end))
        placed.append((life, offset))
    total = max((offset + life.size for life, offset in placed), default=0)
    return total, {life.value: Place(zeroed=False, offset=offset) for life, offset in placed}


def _place_zeroed(lives: list[_Placed]) -> tuple[int, dict[str, Place]]:
    slots: list[tuple[int | None, int, list[_Placed]]] = []
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


def _overlap(a: _Placed, b: _Placed) -> bool:
    return a.first <= b.last and b.first <= a.last


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
