"""Two products with a chain between them are one Subgraph, where nothing else reads what flows between."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from compiler.graph.evaluate import evaluate_graph
from compiler.graph.ir import Graph
from compiler.graph.pipeline import optimise
from compiler.pipeline import load_graph
from compiler.workload.evaluate import evaluate_program
from compiler.workload.partition import partition
from compiler.workload.program import Program
from compiler.workload.verify import verify_program
from tests.compiler.attention import attention_model
from tests.compiler.workload.graphs import random_inputs


def _partitioned(model: onnx.ModelProto) -> Program:
    """The Program of a model; it gives the values of the Graph."""
    graph: Graph = load_graph(model)
    program = partition(optimise(graph))
    verify_program(program)
    inputs = random_inputs(graph)
    expected = evaluate_graph(graph, inputs)
    for name, values in evaluate_program(program, inputs).items():
        np.testing.assert_allclose(values, expected[name], atol=1e-9)
    return program


@pytest.mark.parametrize("masked", [True, False])
def test_attention_is_one_subgraph(masked: bool) -> None:  # noqa: FBT001 (a parameter of the test)
    program = _partitioned(attention_model(2, 5, 7, 3, masked=masked))
    (subgraph,) = program.subgraphs
    reducers = [stage.reducer for stage in subgraph.workload.stages if stage.reducer]
    assert reducers == ["sum", "largest", "sum", "sum"]


def test_the_division_is_done_after_the_second_product() -> None:
    program = _partitioned(attention_model(2, 5, 7, 3))
    workload = program.subgraphs[0].workload
    large = [t for t in workload.temporaries if t.elements == 2 * 5 * 7]
    assert len(large) == 3  # products, scores and exponentials; no weights


def test_weights_that_the_model_gives_out_keep_the_products_apart() -> None:
    program = _partitioned(attention_model(2, 5, 7, 3, outputs=("y", "weights")))
    assert len(program.subgraphs) == 3


def test_one_row_stays_apart() -> None:
    assert len(_partitioned(attention_model(2, 1, 7, 3)).subgraphs) > 1
