"""Reshapes: a value that only has another shape lies where the original does, and what runs is still right."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import onnx
import pytest
from onnx import helper

from compiler.graph.evaluate import evaluate_graph
from compiler.pipeline import compile_program, load_graph, lower
from compiler.scalar import Load
from compiler.schedule.source import NoSource
from compiler.target import native_target
from compiler.workload.evaluate import evaluate_program
from compiler.workload.program import Program
from tests.compiler.frontend.models import model

PICTURE = [1, 6, 4, 10]
WEIGHTS = np.random.default_rng(1).standard_normal((10, 10), np.float32)


def program_of(nodes: list[onnx.NodeProto], outputs: list[str], **constants: object) -> Program:
    """The Program, whose evaluation and whose code give what the Graph gives."""
    arrays = {name: np.asarray(value) for name, value in constants.items()}
    graph = load_graph(model(nodes, {"x": PICTURE}, arrays, outputs))
    program = lower(graph)
    inputs = {"x": np.random.default_rng(0).standard_normal(PICTURE, np.float32)}
    expected = evaluate_graph(graph, inputs)
    with closing(compile_program(program, native_target(), 1, NoSource())) as module:
        found = module.run(inputs)
    assert found.keys() == expected.keys()
    for name, array in found.items():
        np.testing.assert_allclose(evaluate_program(program, inputs)[name], expected[name], rtol=1e-12)
        np.testing.assert_allclose(array, expected[name], rtol=1e-5, atol=1e-5)
    return program


def copies(program: Program) -> list[str]:
    """Subgraphs that store what they load, and nothing else."""
    return [
        s.name
        for s in program.subgraphs
        if all(isinstance(stage.body, Load) and stage.reducer is None for stage in s.workload.stages)
    ]


@pytest.mark.parametrize("groups", [1, 2, 3, 6])
def test_a_reduction_reads_the_original_through_a_reshape(groups: int) -> None:
    """The mean over groups of channels of what a softmax stores, and the groups apart again."""
    nodes = [
        helper.make_node("Softmax", ["x"], ["s"], axis=-1),
        helper.make_node("Reshape", ["s", "groups"], ["g"]),
        helper.make_node("ReduceMean", ["g", "last"], ["m"], keepdims=1),
        helper.make_node("Sub", ["g", "m"], ["d"]),
        helper.make_node("Reshape", ["d", "picture"], ["y"]),
    ]
    program = program_of(nodes, ["y"], groups=[1, groups, -1], last=[2], picture=PICTURE)
    assert not copies(program)


@pytest.mark.parametrize("target", [[1, -1], [1, 3, 80], [1, 2, 3, 40], [12, 20]], ids=str)
def test_a_reshaped_output_is_stored_by_who_computes_it(target: list[int]) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Reshape", ["m", "to"], ["y"]),
    ]
    program = program_of(nodes, ["y"], w=WEIGHTS, to=target)
    assert len(program.subgraphs) == 1


def test_a_reader_of_the_original_reads_the_reshaped_output() -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Reshape", ["m", "to"], ["y"]),
        helper.make_node("MatMul", ["m", "w"], ["z"]),
    ]
    program = program_of(nodes, ["y", "z"], w=WEIGHTS, to=[1, -1])
    assert not copies(program)
    assert any("y" in s.bindings.values() and "z" in s.bindings.values() for s in program.subgraphs)


def test_both_shapes_as_outputs_are_both_stored() -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Reshape", ["m", "to"], ["y"]),
    ]
    assert program_of(nodes, ["m", "y"], w=WEIGHTS, to=[1, -1]).outputs.keys() == {"m", "y"}


def test_two_reshaped_outputs_of_one_value_are_both_stored() -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Reshape", ["m", "flat"], ["y"]),
        helper.make_node("Reshape", ["m", "tall"], ["z"]),
    ]
    program = program_of(nodes, ["y", "z"], w=WEIGHTS, flat=[1, -1], tall=[60, 4])
    assert len(copies(program)) <= 1


def test_an_input_that_is_only_reshaped_is_copied() -> None:
    program = program_of([helper.make_node("Reshape", ["x", "to"], ["y"])], ["y"], to=[4, -1])
    assert len(copies(program)) == 1


def test_a_transpose_is_no_reshape() -> None:
    nodes = [
        helper.make_node("Softmax", ["x"], ["h"], axis=-1),
        helper.make_node("Transpose", ["h"], ["y"], perm=[0, 1, 3, 2]),
    ]
    program_of(nodes, ["y"])
