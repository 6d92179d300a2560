"""The Steps of a Schedule: a closed set of frozen records, one primitive each.

    step ::= Algorithm(name, parameters) | Split(stage, loop, factor) | Fuse(stage, outer, inner)
           | Reorder(stage, loops) | Bind(stage, loop, kind) | ComputeAt(stage, consumer, loop) | Pack(stage, operand)
           | RFactor(stage, loop, outermost) | Inline(stage) | Tensorize(stage, loop, instruction)
           | Reverse(stage, loop)

What each does to the nest, and when it is legal, stands in the primitive of the same name (compiler/schedule/split.py
and so on). Stages and loops have stable ids: the axis `s1` of a stage starts as loop `s1`, splitting it gives `s1.o`
and `s1.i`, fusing `a` and `b` gives `a*b`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Union

from compiler.loop.ir import LoopKind


@dataclass(frozen=True, slots=True)
class Algorithm:
    """Replace the Workload by an equivalent one. Only as the first Step."""

    name: str
    parameters: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Split:
    """`loop` becomes `loop.o` around `loop.i` of `factor` iterations."""

    stage: str
    loop: str
    factor: int


@dataclass(frozen=True, slots=True)
class Fuse:
    """`outer` and the loop directly inside it become one loop `outer*inner`."""

    stage: str
    outer: str
    inner: str


@dataclass(frozen=True, slots=True)
class Reorder:
    """The named loops take each other's places in this order, outermost first."""

    stage: str
    loops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Bind:
    """How a loop is carried out."""

    stage: str
    loop: str
    kind: LoopKind


@dataclass(frozen=True, slots=True)
class ComputeAt:
    """Compute `stage` inside `loop` of `consumer`, only the region that is read there, in memory of the thread."""

    stage: str
    consumer: str
    loop: str


@dataclass(frozen=True, slots=True)
class Pack:
    """Rearrange a constant operand of `stage` into the order in which the stage's loops read it."""

    stage: str
    operand: str


@dataclass(frozen=True, slots=True)
class RFactor:
    """A loop of a reduction becomes an axis of partial results, in a stage `stage.loop` of their own.

    `outermost`: the axis is the outermost in memory, and not the innermost.
    """

    stage: str
    loop: str
    outermost: bool = False


@dataclass(frozen=True, slots=True)
class Inline:
    """A map is computed where it is read and not stored."""

    stage: str


@dataclass(frozen=True, slots=True)
class Tensorize:
    """Let one instruction do what `loop` and the vector loop inside it say."""

    stage: str
    loop: str
    instruction: str


@dataclass(frozen=True, slots=True)
class Reverse:
    """`loop` goes from its end to its beginning."""

    stage: str
    loop: str


Step = Union[Algorithm, Split, Fuse, Reorder, Bind, ComputeAt, Pack, RFactor, Inline, Tensorize, Reverse]


def step_json(step: Step) -> dict[str, Any]:
    """JSON form: the fields, and the primitive's name under "step"."""
    found: dict[str, Any] = {"step": type(step).__name__}
    for name in type(step).__slots__:
        value = getattr(step, name)
        found[name] = list(value) if isinstance(value, tuple) else value
    if isinstance(step, Bind):
        found["kind"] = step.kind.value
    if isinstance(step, RFactor) and not step.outermost:
        del found["outermost"]
    return found


def step_from_json(data: Any) -> Step:
    """Inverse of `step_json`; raises ValueError on anything else."""
    if not isinstance(data, Mapping) or data.get("step") not in _PARSERS:
        msg = f"not a schedule step: {data!r}"
        raise ValueError(msg)
    try:
        return _PARSERS[data["step"]](data)
    except (KeyError, TypeError) as error:
        msg = f"malformed schedule step {data!r}: {error}"
        raise ValueError(msg) from error


_PARSERS: dict[str, Callable[[Mapping[str, Any]], Step]] = {
    "Algorithm": lambda d: Algorithm(str(d["name"]), tuple(int(p) for p in d["parameters"])),
    "Split": lambda d: Split(str(d["stage"]), str(d["loop"]), int(d["factor"])),
    "Fuse": lambda d: Fuse(str(d["stage"]), str(d["outer"]), str(d["inner"])),
    "Reorder": lambda d: Reorder(str(d["stage"]), tuple(str(name) for name in d["loops"])),
    "Bind": lambda d: Bind(str(d["stage"]), str(d["loop"]), LoopKind(d["kind"])),
    "ComputeAt": lambda d: ComputeAt(str(d["stage"]), str(d["consumer"]), str(d["loop"])),
    "Pack": lambda d: Pack(str(d["stage"]), str(d["operand"])),
    "Inline": lambda d: Inline(str(d["stage"])),
    "RFactor": lambda d: RFactor(str(d["stage"]), str(d["loop"]), bool(d.get("outermost", False))),
    "Tensorize": lambda d: Tensorize(str(d["stage"]), str(d["loop"]), str(d["instruction"])),
    "Reverse": lambda d: Reverse(str(d["stage"]), str(d["loop"])),
}
