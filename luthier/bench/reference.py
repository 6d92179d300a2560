"""Seeded inputs, and outputs in float64 to measure an engine's error against."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from compiler.dtype import DType
from compiler.evaluate import reference_outputs
from compiler.runtime.image import TensorSpec
from compiler.workload.index_operands import input_index_extents
from compiler.workload.program import Program, Subgraph

Arrays = Mapping[str, np.ndarray]


def make_inputs(
    specs: Iterable[TensorSpec], seed: int = 0, program: Program | None = None
) -> dict[str, np.ndarray]:
    """Inputs that depend on the seed alone: normal for floats, 0 to 6 for integers.

    Integers that are indices run over all that they can choose from, where the program that tells so is given.
    """
    generator = np.random.default_rng(seed)
    extents = {} if program is None else input_index_extents(program)
    return {spec.name: _array(spec, generator, extents.get(spec.name, 7)) for spec in specs}


def float64_outputs(program: Program, inputs: Arrays) -> dict[str, np.ndarray]:
    """Every Subgraph evaluated in float64, by definition rather than by generated code."""
    values: dict[str, np.ndarray] = {**program.constants, **inputs}
    for subgraph in program.subgraphs:
        store(
            program,
            subgraph,
            values,
            reference_outputs(subgraph.workload, operands(program, subgraph, values)),
        )
    shapes = {name: tuple(extent.const for extent in kind.shape) for name, kind in program.outputs.items()}
    return {name: values[name].reshape(shape) for name, shape in shapes.items()}


def operands(program: Program, subgraph: Subgraph, values: Arrays) -> dict[str, np.ndarray]:
    """What a Subgraph reads of the values so far. A Workload may see several dimensions of a value as one."""
    homes = {name: program.home(value) for name, value in subgraph.bindings.items()}
    return {o.name: values[homes[o.name]].reshape(o.sizes) for o in subgraph.workload.operands}


def store(program: Program, subgraph: Subgraph, values: dict[str, np.ndarray], outputs: Arrays) -> None:
    """Add the outputs of a Subgraph to the values, a part to its whole: around the part there are zeros."""
    for name, array in outputs.items():
        value = subgraph.bindings[name]
        home, stored = program.home(value), array.reshape(program.buffers[value].sizes)
        if home != value and home in values:
            stored = np.where(stored == 0, values[home], stored)
        values[home] = stored


def relative_error(outputs: Arrays, reference: Arrays) -> float:
    """Largest difference over the largest value of the reference, the worst of all outputs; infinite for NaN."""
    worst = 0.0
    for name, expected in reference.items():
        if expected.size == 0:
            continue
        scale = max(float(np.max(np.abs(expected))), np.finfo(np.float64).tiny)
        error = float(np.max(np.abs(np.asarray(outputs[name], np.float64) - expected))) / scale
        worst = max(worst, error if np.isfinite(error) else float("inf"))
    return worst


def _array(spec: TensorSpec, generator: np.random.Generator, stop: int) -> np.ndarray:
    if spec.dtype.is_float:
        return generator.standard_normal(spec.sizes()).astype(spec.dtype.numpy)
    if spec.dtype is DType.BOOL:
        return generator.random(spec.sizes()) < 0.5
    return generator.integers(0, stop, spec.sizes()).astype(spec.dtype.numpy)
