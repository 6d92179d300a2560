"""Models of one operator with the sizes of layers: what is tried first compiles for every Target."""

from __future__ import annotations

import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler.codegen.nest import emit_nest
from compiler.errors import UnsupportedOperator
from compiler.pipeline import build_nest, load_graph, lower
from compiler.space.rules import build_space
from compiler.target import PRESETS, Target
from tests.compiler.random_models import models
from tests.compiler.schedule.test_matrices import WITH_MATRICES

TARGETS = {**{n: t for n, t in PRESETS.items() if not t.grid_threads}, "matrices": WITH_MATRICES}


def check(model: onnx.ModelProto, target: Target, threads: int) -> None:
    """The default and the starts of every Subgraph: one that fails is a model refused, or a trial lost in every job."""
    try:
        program = lower(load_graph(model))
    except UnsupportedOperator:
        return  # a form that the frontend refuses in one sentence
    for subgraph in program.subgraphs:
        space = build_space(subgraph.workload, target, threads)
        for assignment in dict.fromkeys((space.default, *space.starts)):
            emit_nest(build_nest(subgraph.workload, space.schedule(assignment)), target)


_RELAXED = {"deadline": None, "suppress_health_check": list(HealthCheck)}
_CASES = given(models(layers=True), st.sampled_from(sorted(TARGETS)), st.integers(1, 2))


@_CASES
@settings(max_examples=20, **_RELAXED)
def test_twenty_layers(model: onnx.ModelProto, target: str, threads: int) -> None:
    check(model, TARGETS[target], threads)


@pytest.mark.slow
@_CASES
@settings(max_examples=3000, **_RELAXED)
def test_three_thousand_layers(model: onnx.ModelProto, target: str, threads: int) -> None:
    check(model, TARGETS[target], threads)
