"""Text of Workloads and Programs, for people and for golden tests."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.scalar import expr_text
from compiler.symbol import Axis
from compiler.workload.ir import Operand, Stage, Workload
from compiler.workload.program import Program


def workload_text(workload: Workload) -> str:
    """A line for each buffer, then one for each stage and each of its results."""
    groups = (
        ("operand", workload.operands),
        ("temporary", workload.temporaries),
        ("output", workload.outputs),
    )
    lines = [_buffer(kind, operand) for kind, group in groups for operand in group]
    for stage in workload.stages:
        lines += _stage(stage)
    return "\n".join(lines) + "\n"


def program_text(program: Program) -> str:
    """A line for each input, output, stored value and Subgraph."""
    return "\n".join(_program(program)) + "\n"


def _program(program: Program) -> Iterator[str]:
    yield f"program {program.name}"
    for kind, types in (("input", program.inputs), ("output", program.outputs)):
        for name, type_ in types.items():
            yield f"{kind} {name}: {type_.dtype.value}[{', '.join(map(str, type_.shape))}]"
    for name, operand in program.buffers.items():
        layout = program.layouts.get(name)
        yield _buffer("buffer", operand) + ("" if layout is None or layout.is_plain else f"  {layout}")
    for subgraph in program.subgraphs:
        bound = ", ".join(
            f"{new}={old}" + (f"[{subgraph.starts[new]}:]" if new in subgraph.starts else "")
            for new, old in subgraph.bindings.items()
        )
        yield f"{subgraph.workload.digest[:8]} {subgraph.name}: {bound}"


def _buffer(kind: str, operand: Operand) -> str:
    word = "constant" if operand.constant else kind
    return f"{word} {operand.name}: {operand.dtype.value}[{', '.join(map(str, operand.storage))}]"


def _stage(stage: Stage) -> list[str]:
    head = f"{stage.name}: for {_axes(stage.axes)}"
    if stage.reducer is not None:
        head += f", {stage.reducer} over {_axes(stage.reduce_axes)}"
    stored = [
        f"    {r.target}[{', '.join(map(str, r.indices))}] = {expr_text(r.body)}" for r in stage.results
    ]
    return [f"{head} in {stage.dtype.value}", *stored]


def _axes(axes: tuple[Axis, ...]) -> str:
    return ", ".join(f"{a.name} < {a.extent}" for a in axes)
