"""Operators and networks with the sizes of layers: what is tried first compiles for every Target."""

from __future__ import annotations

from unittest import TestCase

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler.codegen.nest import emit_nest
from compiler.errors import UnsupportedOperator
from compiler.pipeline import build_nest, load_graph, lower
from compiler.space.rules import build_space
from compiler.target import PRESETS, Target
from compiler.workload.program import Program
from tests.compiler.random_models import models
from tests.compiler.random_networks import networks
from tests.compiler.schedule.test_matrices import WITH_MATRICES
from tests.compiler.workload.test_random_networks import assert_same, run_compiled
from tests.onnx_runtime import expected_outputs

TARGETS = {**{n: t for n, t in PRESETS.items() if not t.grid_threads}, "matrices": WITH_MATRICES}
_MOST_POINTS = 2 * 10**8
"""Of a network that is run: a second, by the slower of two engines."""


def lowered(model: onnx.ModelProto) -> Program | None:
    """None of a form that the frontend refuses in one sentence."""
    try:
        return lower(load_graph(model))
    except UnsupportedOperator:
        return None


def check(model: onnx.ModelProto, target: Target, threads: int) -> None:
    """The default and the starts of every Subgraph: one that fails is a model refused, or a trial lost in every job."""
    program = lowered(model)
    for subgraph in program.subgraphs if program is not None else ():
        with TestCase().assertNoLogs("luthier", "WARNING"):  # it tells of a default that does not fit
            space = build_space(subgraph.workload, target, threads)
        for assignment in dict.fromkeys((space.default, *space.starts)):
            emit_nest(build_nest(subgraph.workload, space.schedule(assignment)), target)


_RELAXED = {"deadline": None, "suppress_health_check": list(HealthCheck)}
_WHERE = st.sampled_from(sorted(TARGETS)), st.integers(1, 2)


@given(models(layers=True), *_WHERE)
@settings(max_examples=20, **_RELAXED)
def test_twenty_operators(model: onnx.ModelProto, target: str, threads: int) -> None:
    check(model, TARGETS[target], threads)


@given(networks(layers=True), *_WHERE)
@settings(max_examples=10, **_RELAXED)
def test_ten_networks(model: onnx.ModelProto, target: str, threads: int) -> None:
    check(model, TARGETS[target], threads)


@pytest.mark.slow
@given(models(layers=True), *_WHERE)
@settings(max_examples=3000, **_RELAXED)
def test_three_thousand_operators(model: onnx.ModelProto, target: str, threads: int) -> None:
    check(model, TARGETS[target], threads)


@pytest.mark.slow
@given(networks(layers=True), *_WHERE)
@settings(max_examples=1000, **_RELAXED)
def test_a_thousand_networks(model: onnx.ModelProto, target: str, threads: int) -> None:
    check(model, TARGETS[target], threads)


@pytest.mark.slow
@given(st.one_of(models(layers=True), networks(layers=True)))
@settings(max_examples=1000, **_RELAXED)
def test_a_thousand_agree_with_onnx_runtime(model: onnx.ModelProto) -> None:
    program = lowered(model)
    if program is None or sum(s.points for g in program.subgraphs for s in g.workload.stages) > _MOST_POINTS:
        return
    random = np.random.default_rng(0)
    inputs = {n: random.standard_normal(kind.sizes).astype(np.float32) for n, kind in program.inputs.items()}
    wanted = expected_outputs(model, inputs)
    finite = {name: array for name, array in wanted.items() if np.isfinite(array).all()}
    assert_same(run_compiled(program, inputs), finite)
