"""Verify: what every Workload and Program must satisfy. Tests run it after partitioning, debugging after every pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from compiler.errors import CompileError
from compiler.graph.verify import guarded_loads, narrowed, stray_lookup
from compiler.index import Index, Ranges
from compiler.scalar import Bound, Guard, Load, Pick, walk
from compiler.scalar_ops import REDUCERS
from compiler.symbol import corners, static
from compiler.workload.ir import Operand, Stage, Workload, stage_loads
from compiler.workload.program import Program, Subgraph
from compiler.workload.specialise import specialise


def verify_workload(workload: Workload) -> None:
    """Check names, ranks, order of stages and the bounds of every index.

    A Workload with symbols is checked at the ends of their ranges. Where indices and extents are affine in them, what
    holds there holds between.

    Raises:
        CompileError: the first rule that is broken; it is a bug of the compiler.
    """
    for values in corners(workload.symbols):
        _verify_static(specialise(workload, values))


def _verify_static(workload: Workload) -> None:
    buffers = workload.buffers
    count = len(workload.operands) + len(workload.temporaries) + len(workload.outputs)
    _require(len(buffers) == count, "two buffers have the same name")
    ready = {o.name for o in workload.operands}
    for stage in workload.stages:
        read = {load.buffer for load in stage_loads(stage)}
        _require(read <= ready, f"stage {stage.name} reads {sorted(read - ready)} before it is written")
        for single in stage.apart:
            _require(
                single.target in buffers and (single.target in ready) == single.adds,
                f"{single.target} is stored twice, or nothing is there to add to",
            )
            _verify_stage(single, buffers)
            ready.add(single.target)
    _require(ready == buffers.keys(), f"nothing stores {sorted(buffers.keys() - ready)}")


def verify_program(program: Program) -> None:
    """Check every Workload, that values are written before they are read, and that extents agree.

    Raises:
        CompileError: the first rule that is broken; it is a bug of the compiler.
    """
    ready = {*program.inputs, *program.constants}
    parts: dict[str, list[str]] = {}
    for part, whole in program.wholes.items():
        parts.setdefault(whole, []).append(part)
    seen: set[str] = set()
    for subgraph in program.subgraphs:
        if subgraph.workload.digest not in seen:
            verify_workload(subgraph.workload)
            seen.add(subgraph.workload.digest)
        _verify_bindings(subgraph, program)
        bound = subgraph.bindings
        for operand in subgraph.workload.operands:
            value = bound[operand.name]
            _require(_is_ready(value, ready, parts), f"{subgraph.name} reads {value} before it is written")
        written = {bound[operand.name] for operand in subgraph.workload.outputs}
        _require(not written & ready, f"{subgraph.name} stores {sorted(written & ready)} again")
        ready |= written
    missing = program.outputs.keys() - ready
    _require(not missing, f"nothing computes the outputs {sorted(missing)}")


def _is_ready(value: str, ready: Set[str], parts: Mapping[str, Sequence[str]]) -> bool:
    if value in parts:
        return all(_is_ready(part, ready, parts) for part in parts[value])
    return value in ready


def _verify_bindings(subgraph: Subgraph, program: Program) -> None:
    workload = subgraph.workload
    bound = {o.name for o in (*workload.operands, *workload.outputs)}
    _require(subgraph.bindings.keys() == bound, f"{subgraph.name} binds {sorted(subgraph.bindings)}")
    for operand in (*workload.operands, *workload.outputs):
        value = subgraph.bindings[operand.name]
        constant = program.constants.get(value)
        elements = program.buffers[value].count if constant is None else Index.of(constant.size)
        needed = operand.count.substitute({own: Index.of(name) for own, name in subgraph.symbols.items()})
        _require(operand.constant == (constant is not None), f"{value} is a constant on one side only")
        if operand.name in subgraph.starts:
            start = subgraph.starts[operand.name]
            fits = 0 <= start <= static(elements, value) - static(needed, value)
            own = value not in program.inputs and value not in program.outputs and constant is None
            _require(fits and own, f"{operand.name} from {start} on is no part of {value}")
        else:
            _require(elements == needed, f"{value} has {elements} elements, not {needed}")


def _verify_stage(stage: Stage, buffers: Mapping[str, Operand]) -> None:
    where = f"stage {stage.name}"
    ranges = stage.ranges
    _require(bool(stage.axes), f"{where} has no axis")
    _require(len(ranges) == len(stage.axes) + len(stage.reduce_axes), f"{where} has two axes of one name")
    _require((stage.reducer is None) == (not stage.reduce_axes), f"{where} reduces over nothing")
    _require(stage.reducer is None or not stage.also, f"{where} reduces, but stores several results")
    _require(stage.reducer is None or stage.reducer in REDUCERS, f"{where} has reducer {stage.reducer}")
    spatial = {a.name: a.size for a in stage.axes}
    _verify_access(Load(stage.target, stage.target_indices), buffers, spatial, (), where)
    for e in walk(stage.body):
        for bound in e.bounds if isinstance(e, Guard) else ():
            _verify_names(bound.index, ranges, where)
        if isinstance(e, Pick):
            _verify_names(e.index, ranges, where)
            low, high = e.index.bounds(ranges)
            _require(
                low >= 0 and high < len(e.values),
                f"{where}: a table is indexed by {e.index} in {low}..{high}",
            )
    stray = stray_lookup(stage.body)
    _require(stray is None, f"{where} uses {stray}, which no lookup around it defines, or two do")
    for load, bounds in guarded_loads(stage.body, ranges):
        _verify_access(load, buffers, ranges, bounds, where)


def _verify_access(
    load: Load, buffers: Mapping[str, Operand], ranges: Ranges, bounds: tuple[Bound, ...], where: str
) -> None:
    sizes = buffers[load.buffer].sizes
    what = f"{where}: {load.buffer} of {list(sizes)}"
    _require(len(sizes) == len(load.indices), f"{what} has {len(load.indices)} indices")
    for index, size in zip(load.indices, sizes, strict=True):
        _verify_names(index, ranges, where)
        low, high = narrowed(index, bounds, ranges)
        # A bound on other expressions of the same axes may protect it too; that is not decided here.
        protected = any(index.names() & bound.index.names() for bound in bounds)
        _require(protected or (low >= 0 and high < size), f"{what} is indexed by {index} in {low}..{high}")


def _verify_names(index: Index, ranges: Ranges, where: str) -> None:
    unknown = index.names() - ranges.keys()
    _require(not unknown, f"{where} uses undefined names {sorted(unknown)}")


def _require(holds: bool, rule: str) -> None:  # noqa: FBT001  (the condition is what it is about)
    if not holds:
        msg = f"{rule}; this is a bug in Luthier, please report it with the model"
        raise CompileError(msg)
