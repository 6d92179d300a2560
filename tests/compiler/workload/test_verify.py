from __future__ import annotations

from dataclasses import replace

import pytest

from compiler.errors import CompileError
from compiler.index import Index
from compiler.scalar import Pick
from compiler.symbol import axis
from compiler.workload.ir import Stage, Workload
from compiler.workload.partition import partition
from compiler.workload.program import Program
from compiler.workload.verify import verify_program, verify_workload
from tests.compiler.workload.graphs import GraphBuilder, bottleneck, load


def _workload() -> Workload:
    b = GraphBuilder()
    (subgraph,) = partition(b.graph(b.bias(b.matmul(b.input("x", 4, 5), 6)))).subgraphs
    return subgraph.workload


def _with_anchor(**changes: object) -> Workload:
    workload = _workload()
    anchor, epilogue = workload.stages
    broken: Stage = replace(anchor, **changes)  # type: ignore[arg-type]
    return replace(workload, stages=(broken, epilogue))


def test_what_partition_makes_is_valid() -> None:
    verify_workload(_workload())
    verify_program(partition(bottleneck()))


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"body": load("x0", "s0", Index.of("r0") + 1)}, "x0 of .* is indexed by r0 \\+ 1 in 1..5"),
        ({"body": load("x0", "s0", "z")}, "undefined names"),
        ({"body": load("x0", "s0")}, "has 1 indices"),
        ({"body": load("x9", "s0")}, "before it is written"),
        ({"body": load("y0", "s0", "s1")}, "before it is written"),
        ({"body": Pick((1.0, 2.0), Index.of("r0"))}, "a table is indexed by r0 in 0..4"),
        ({"target": "x0"}, "stored twice"),
        ({"target_indices": load("t0", "s1", "s0").indices}, "is indexed by s1"),
        ({"target_indices": load("t0", "s0", "r0").indices}, "undefined names"),
        ({"reducer": "mean"}, "has reducer mean"),
        ({"reducer": None}, "reduces over nothing"),
        ({"axes": ()}, "has no axis"),
        ({"reduce_axes": (axis("s0", 5),)}, "two axes of one name"),
    ],
)
def test_broken_stages_are_refused(changes: dict[str, object], rule: str) -> None:
    with pytest.raises(CompileError, match=rule):
        verify_workload(_with_anchor(**changes))


def test_outputs_must_be_stored() -> None:
    workload = _workload()
    with pytest.raises(CompileError, match="nothing stores"):
        verify_workload(replace(workload, stages=workload.stages[:1]))


def test_buffers_have_names_of_their_own() -> None:
    workload = _workload()
    with pytest.raises(CompileError, match="same name"):
        verify_workload(replace(workload, temporaries=workload.outputs))


def _program(**changes: object) -> Program:
    return replace(partition(bottleneck()), **changes)  # type: ignore[arg-type]


def test_subgraphs_run_after_what_they_read() -> None:
    subgraphs = partition(bottleneck()).subgraphs
    with pytest.raises(CompileError, match="before it is written"):
        verify_program(_program(subgraphs=tuple(reversed(subgraphs))))
    with pytest.raises(CompileError, match="nothing computes the outputs"):
        verify_program(_program(subgraphs=subgraphs[:-1]))
    with pytest.raises(CompileError, match="again"):
        verify_program(_program(subgraphs=(*subgraphs, subgraphs[-1])))


def test_bindings_fit_their_workload() -> None:
    first, *rest = partition(bottleneck()).subgraphs
    for bindings, rule in (
        ({"x0": "image"}, "binds"),
        ({**first.bindings, "x0": "v2"}, "has 512 elements"),
        ({**first.bindings, "x0": "k0"}, "a constant on one side only"),
    ):
        broken = replace(first, bindings=bindings)
        with pytest.raises(CompileError, match=rule):
            verify_program(_program(subgraphs=(broken, *rest)))
