"""Evaluate: a Program in float64, by definition rather than by generated code."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from compiler.evaluate import reference_outputs
from compiler.workload.program import Program


def evaluate_program(program: Program, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Outputs of a static Program in float64, Subgraph by Subgraph, through the storage of every value."""
    values: dict[str, np.ndarray] = {**program.constants, **inputs}
    for subgraph in program.subgraphs:
        workload, bindings = subgraph.workload, subgraph.bindings
        homes = {name: program.home(value) for name, value in bindings.items()}
        # A Workload may see several dimensions of a value as one.
        operands = {o.name: values[homes[o.name]].reshape(o.sizes) for o in workload.operands}
        for name, array in reference_outputs(workload, operands).items():
            home, stored = homes[name], array.reshape(program.buffers[bindings[name]].sizes)
            # Around a part there are zeros, and where other parts have not been stored yet.
            values[home] = stored if home == bindings[name] else values.get(home, 0) + stored
    return {name: values[name].reshape(kind.sizes) for name, kind in program.outputs.items()}
