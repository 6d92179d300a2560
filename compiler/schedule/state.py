"""What a Schedule has decided so far: the stages of a Workload with their loops.

Every primitive maps a State to a State.

    state ::= State(workload, stages)
    stage ::= ScheduledStage(stage, loops, lets, bindings, attached, region, packed, dot)

`bindings` says what each axis of the Stage is in terms of loops; `lets` name the parts of fused loops;
`dot` is the loop that an instruction takes in, and the instruction's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from compiler.errors import ScheduleError
from compiler.index import Index, Ranges
from compiler.loop.ir import Extent, LoopKind
from compiler.symbol import Axis, Size, Symbol, ranges_of
from compiler.workload.ir import Stage, Workload


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop of a stage; `reduces` where it runs over a reduction axis."""

    name: str
    extent: Extent
    reduces: bool
    kind: LoopKind = LoopKind.SERIAL


@dataclass(frozen=True, slots=True)
class Part:
    """A name for a quotient or remainder of the fused loop `of`; `bound`: its extent, where that is over symbols."""

    name: str
    value: Index
    extent: int
    of: str
    bound: Index | None = None


@dataclass(frozen=True, slots=True)
class Attachment:
    """Where a stage is computed: inside `loop` of `consumer`.

    Attributes:
        origin: first element of the region, per dimension of the stage's target, in the consumer's qualified names.
        shape: elements of the region, per dimension. Where one is open the region stays in the whole buffer.
    """

    consumer: str
    loop: str
    origin: tuple[Index, ...]
    shape: tuple[Size, ...]

    @property
    def is_open(self) -> bool:
        """Whether the region has no constant size, so that the thread has no memory of its own for it."""
        return any(isinstance(size, Index) for size in self.shape)


@dataclass(frozen=True)
class ScheduledStage:
    """A stage and its loops, outermost first. All names are local to the stage; those of a consumer are qualified."""

    stage: Stage
    loops: tuple[Loop, ...]
    bindings: Mapping[str, Index]
    lets: tuple[Part, ...] = ()
    attachment: Attachment | None = None
    packed: tuple[str, ...] = ()
    dot: tuple[str, str] | None = None

    def loop(self, name: str) -> Loop:
        """The loop of that name; raises ScheduleError with the names that exist."""
        for candidate in self.loops:
            if candidate.name == name:
                return candidate
        msg = f"stage {self.stage.name} has no loop {name!r}; it has {', '.join(loop.name for loop in self.loops)}"
        raise ScheduleError(msg)

    def position(self, name: str) -> int:
        """Place of a loop, 0 for the outermost."""
        return self.loops.index(self.loop(name))

    def replace_loop(self, name: str, *new: Loop) -> tuple[Loop, ...]:
        """The loops with one of them replaced by others."""
        at = self.position(name)
        return (*self.loops[:at], *new, *self.loops[at + 1 :])

    @cached_property
    def qualifiers(self) -> Mapping[str, Index]:
        """The name of each loop and part as the other stages see it."""
        own = [loop.name for loop in self.loops] + [part.name for part in self.lets]
        return {name: Index.of(qualified(self.stage.name, name)) for name in own}

    def rebind(self, values: Mapping[str, Index]) -> Mapping[str, Index]:
        """The bindings with names replaced."""
        return {axis: index.substitute(values) for axis, index in self.bindings.items()}


@dataclass(frozen=True)
class State:
    """All stages of a Workload."""

    workload: Workload
    stages: tuple[ScheduledStage, ...]

    def is_open(self, extent: Extent) -> bool:
        """Whether an extent is known only when the kernel runs, and the same all through the run."""
        names = frozenset[str]() if extent.bound is None else extent.bound.names()
        return bool(names) and names <= {symbol.name for symbol in self.workload.symbols}

    def check_whole(self, stage: Stage, what: str) -> None:
        """Raise ScheduleError where a stage adds to what another has stored, or another to what it has."""
        if any(s.stage.adds and s.stage.target == stage.target for s in self.stages):
            msg = f"cannot {what} {stage.name}: it is one of two stages that make {stage.target}"
            raise ScheduleError(msg)

    def stage(self, name: str) -> ScheduledStage:
        """The stage of that name; raises ScheduleError with the names that exist."""
        for candidate in self.stages:
            if candidate.stage.name == name:
                return candidate
        names = ", ".join(s.stage.name for s in self.stages)
        msg = f"the workload has no stage {name!r}; it has {names}"
        raise ScheduleError(msg)

    def with_stage(self, new: ScheduledStage) -> State:
        """The state with the stage of the same name replaced."""
        name = new.stage.name
        return State(self.workload, tuple([new if s.stage.name == name else s for s in self.stages]))


def qualified(stage: str, name: str) -> str:
    """The name of a loop of one stage as the others see it."""
    return f"{stage}:{name}"


def initial_state(workload: Workload) -> State:
    """Every stage as the plain nest of its axes: spatial axes first, then the reduction's."""
    return State(workload, tuple(plain_stage(stage, workload.symbols) for stage in workload.stages))


def plain_stage(stage: Stage, symbols: tuple[Symbol, ...]) -> ScheduledStage:
    """The stage as the plain nest of its axes."""
    ranges = ranges_of(symbols)
    loops = [Loop(a.name, _extent(a, ranges), reduces=False) for a in stage.axes]
    loops += [Loop(a.name, _extent(a, ranges), reduces=True) for a in stage.reduce_axes]
    return ScheduledStage(stage, tuple(loops), {loop.name: Index.of(loop.name) for loop in loops})


def _extent(axis: Axis, ranges: Ranges) -> Extent:
    if axis.extent.constant is not None:
        return Extent(axis.size)
    return Extent(axis.extent.bounds(ranges)[1], axis.extent)
