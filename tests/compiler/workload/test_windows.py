"""Windows: parts of one value that are read alike are one Workload, and what runs is still right."""

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import helper

from compiler.errors import CompileError
from compiler.graph.evaluate import evaluate_graph
from compiler.pipeline import compile_program, load_graph, lower
from compiler.schedule.source import NoSource
from compiler.target import native_target
from compiler.workload.evaluate import evaluate_program
from compiler.workload.printer import program_text
from compiler.workload.program import ALIGNMENT, Program
from compiler.workload.verify import verify_program
from tests.compiler.frontend.models import model


def rows(picked: Sequence[int], width: int, between: str = "Sigmoid") -> onnx.ModelProto:
    """Rows of an intermediate value, each multiplied by the same matrix; an output for each."""
    nodes = [helper.make_node(between, ["x"], ["h"])]
    constants = {"w": np.random.default_rng(1).standard_normal((width, 8), np.float32)}
    for place, row in enumerate(picked):
        constants[f"i{place}"] = np.array([row])
        nodes.append(helper.make_node("Gather", ["h", f"i{place}"], [f"r{place}"], axis=0))
        nodes.append(helper.make_node("MatMul", [f"r{place}", "w"], [f"m{place}"]))
        nodes.append(helper.make_node("Tanh", [f"m{place}"], [f"y{place}"]))
    return model(nodes, {"x": [6, width]}, constants, [f"y{place}" for place in range(len(picked))])


def checked(proto: onnx.ModelProto) -> Program:
    """The Program, whose evaluation and whose code give what the Graph gives."""
    graph = load_graph(proto)
    program = lower(graph)
    inputs = {"x": np.random.default_rng(0).standard_normal(graph.inputs["x"].sizes, np.float32)}
    expected = evaluate_graph(graph, inputs)
    module = compile_program(program, native_target(), 1, NoSource())
    for name, array in module.run(inputs).items():
        np.testing.assert_allclose(evaluate_program(program, inputs)[name], expected[name], rtol=1e-12)
        np.testing.assert_allclose(array, expected[name], rtol=1e-5, atol=1e-6)
    module.close()
    return program


def products(program: Program) -> list[str]:
    """Digests of the matrix products."""
    return [s.workload.digest for s in program.subgraphs if "matmul" in s.name]


def test_rows_of_a_value_are_one_workload() -> None:
    program = checked(rows([1, 4, 5], 16))
    assert len(products(program)) == 3
    assert len(set(products(program))) == 1
    starts = [start for s in program.subgraphs for start in s.starts.values()]
    assert sorted(starts) == [16, 64, 80]
    assert "=h[16:]" in program_text(program)


def test_rows_that_begin_between_vectors_stay_whole() -> None:
    program = checked(rows([1, 2, 3], 5))
    assert 5 * 4 % ALIGNMENT
    assert len(set(products(program))) == 3
    assert not any(s.starts for s in program.subgraphs)


def test_a_row_alone_stays_what_it_was() -> None:
    assert not any(s.starts for s in checked(rows([2], 16)).subgraphs)


def test_rows_of_an_input_stay_whole() -> None:
    program = checked(rows([1, 4, 5], 16, between="Identity"))
    assert len(set(products(program))) == 3


def test_a_window_past_the_end_is_found() -> None:
    program = lower(load_graph(rows([1, 4, 5], 16)))
    last = next(s for s in program.subgraphs if list(s.starts.values()) == [80])
    last.starts[next(iter(last.starts))] = 96  # type: ignore[index]
    with pytest.raises(CompileError, match="is no part of"):
        verify_program(program)
