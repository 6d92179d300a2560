"""Evaluate: a Program in float64, by definition rather than by generated code."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from compiler.evaluate import reference_outputs
from compiler.workload.program import Program, Subgraph

Arrays = Mapping[str, np.ndarray]


def evaluate_program(program: Program, inputs: Arrays) -> dict[str, np.ndarray]:
    """Outputs of a static Program in float64, Subgraph by Subgraph, through the storage of every value."""
    values: dict[str, np.ndarray] = {**program.constants, **inputs}
    for subgraph in program.subgraphs:
        outputs = reference_outputs(subgraph.workload, operands(program, subgraph, values))
        store(program, subgraph, values, outputs)
    return {name: values[name].reshape(kind.sizes) for name, kind in program.outputs.items()}


def operands(program: Program, subgraph: Subgraph, values: Arrays) -> dict[str, np.ndarray]:
    """What a Subgraph reads of the values so far. A Workload may see several dimensions of a value as one."""
    homes = {name: program.home(value) for name, value in subgraph.bindings.items()}
    found = {}
    for o in subgraph.workload.operands:
        start = subgraph.starts.get(o.name, 0)
        found[o.name] = values[homes[o.name]].reshape(-1)[start : start + o.elements].reshape(o.sizes)
    return found


def store(program: Program, subgraph: Subgraph, values: dict[str, np.ndarray], outputs: Arrays) -> None:
    """Put the outputs of a Subgraph among the values; a part is added to its whole, as around it there are zeros."""
    for name, array in outputs.items():
        value = subgraph.bindings[name]
        home, stored = program.home(value), array.reshape(program.buffers[value].sizes)
        values[home] = stored if home == value else values.get(home, 0) + stored
