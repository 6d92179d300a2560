"""Pack: a constant operand is rearranged, once, into the order in which it is read."""

from __future__ import annotations

from dataclasses import replace

from compiler.errors import ScheduleError
from compiler.schedule.packing import is_of_names
from compiler.schedule.state import State
from compiler.schedule.steps import Pack
from compiler.workload.ir import stage_loads


def pack(state: State, step: Pack) -> State:
    """`w[f(loops)]` → `w.packed[loops that occur in f, outermost first]`, zero where f leaves w.

    Legal on a constant operand that the stage reads at one place, as the last word on the order of its loops: the
    packed order is that of the loops when the nest is made.
    """
    stage = state.stage(step.stage)
    operand = next((o for o in state.workload.operands if o.name == step.operand), None)
    if operand is None or not operand.constant:
        msg = f"cannot pack {step.operand}: only a constant operand of the workload can be packed"
        raise ScheduleError(msg)
    reads = {load.indices for load in stage_loads(stage.stage) if load.buffer == step.operand}
    elsewhere = any(
        load.buffer == step.operand
        for s in state.stages
        if s.stage.name != step.stage
        for load in stage_loads(s.stage)
    )
    if len(reads) != 1 or elsewhere:
        msg = f"cannot pack {step.operand}: it must be read at exactly one place, by {step.stage} alone"
        raise ScheduleError(msg)
    if not all(is_of_names(index) for index in next(iter(reads))):
        msg = f"cannot pack {step.operand}: it is read with a quotient of more than a name, or a remainder"
        raise ScheduleError(msg)
    return state.with_stage(replace(stage, packed=(*stage.packed, step.operand)))
