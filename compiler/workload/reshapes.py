"""Reshapes: a value that only has another shape lies where the original does, and whoever reads it reads that.

    t[s0, s1] = x[s0, s1 // 56, s1 % 56]; y[s0] = sum(t[s0, r0])   →   y[s0] = sum(x[s0, r0])

A Subgraph that copies elements in the order of memory is left out: its result is the other value under another name.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.index import Index
from compiler.scalar import Load
from compiler.workload.ir import Operand, Stage
from compiler.workload.program import Program, Subgraph


def share_reshaped(program: Program) -> Program:
    """Bind readers of such a copy to what it copies; static Programs only.

    Outputs of the model are stored: what computes the original stores it there, where that is none itself.
    """
    instead: dict[str, str] = {}
    left: list[Subgraph] = []
    computed: set[str] = set()
    fixed = {*program.outputs, *program.wholes, *program.wholes.values()}
    for subgraph in program.subgraphs:
        new = _rebound(subgraph, instead)
        names = _copied(new)
        if names is None:
            left.append(new)
            computed |= {new.bindings[o.name] for o in new.workload.outputs}
            continue
        source, target = names
        if target not in fixed and source not in program.wholes and source not in program.constants:
            instead[target] = source
        elif target in program.outputs and source in computed - fixed:
            left = [_rebound(s, {source: target}) for s in left]
            instead = {old: target if now == source else now for old, now in instead.items()} | {
                source: target
            }
            computed = (computed - {source}) | {target}
        else:
            left.append(new)
    if len(left) == len(program.subgraphs):
        return program
    used = (
        {value for s in left for value in s.bindings.values()}
        | program.inputs.keys()
        | program.outputs.keys()
    )
    used |= {*program.wholes, *program.wholes.values()}
    return replace(
        program,
        subgraphs=tuple(left),
        buffers={value: buffer for value, buffer in program.buffers.items() if value in used},
        layouts={value: layout for value, layout in program.layouts.items() if value in used},
    )


def _rebound(subgraph: Subgraph, instead: dict[str, str]) -> Subgraph:
    if not any(value in instead for value in subgraph.bindings.values()):
        return subgraph
    bindings = {name: instead.get(value, value) for name, value in subgraph.bindings.items()}
    return replace(subgraph, bindings=bindings)


def _copied(subgraph: Subgraph) -> tuple[str, str] | None:
    """The value that a Subgraph copies in the order of memory, and the copy; None where it does anything else."""
    workload = subgraph.workload
    if len(workload.operands) != 1 or len(workload.outputs) != 1 or len(workload.stages) != 1:
        return None
    (source,), (target,), (stage,) = workload.operands, workload.outputs, workload.stages
    if source.dtype is not target.dtype or not isinstance(stage.body, Load) or stage.reducer is not None:
        return None
    if not source.elements == target.elements == stage.points:
        return None  # There is a border.
    if _place(source, stage.body, stage) != _place(target, Load(target.name, stage.target_indices), stage):
        return None
    return subgraph.bindings[source.name], subgraph.bindings[target.name]


def _place(buffer: Operand, access: Load, stage: Stage) -> Index:
    """In elements from the first."""
    total = Index()
    for index, stride in zip(access.indices, buffer.strides, strict=True):
        total += index * stride
    return total.simplify(stage.ranges)
