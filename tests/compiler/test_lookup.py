"""Indices that are only known at run time: one expression, the same in every form and for every reader of it."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import count

import numpy as np
import pytest

from compiler.dtype import DType
from compiler.elementary import place
from compiler.errors import CompileError, ScheduleError
from compiler.evaluate import reference_outputs
from compiler.graph.cse import EliminateCommonSubexpressions
from compiler.graph.scalar_rules import simplified
from compiler.graph.verify import stray_lookup
from compiler.index import Index, LookedUp
from compiler.scalar import (
    Const,
    Expr,
    Load,
    Lookup,
    apply,
    expr_from_json,
    expr_json,
    expr_text,
    rename_lookups,
)
from compiler.scalar_type import expr_type
from compiler.schedule.primitives import replay
from compiler.schedule.schedule import Schedule
from compiler.schedule.steps import ComputeAt
from compiler.workload.canonical import canonicalise
from compiler.workload.index_operands import index_extents
from compiler.workload.ir import Workload
from compiler.workload.names import describe
from compiler.workload.verify import verify_workload
from tests.compiler.graph.building import graph, node
from tests.compiler.workloads import (
    KINDS,
    at,
    chain,
    gather_pairs,
    gather_rows,
    integers,
    looked_up,
    operand,
    random_operands,
    row_stage,
)


def row(name: str, table: str = "x") -> Lookup:
    """table[indices[a0], a1]."""
    found = LookedUp(name, 4)
    return Lookup(found, Load("i", at("a0")), Load(table, (Index.of(found), Index.of("a1"))))


def test_a_place_counts_from_either_end_and_never_leaves_the_extent() -> None:
    values = np.array([0, 4, -1, -5, 5, -6, 2**62, -(2**62)])
    np.testing.assert_array_equal(place(values, 5), [0, 4, 4, 0, 4, 0, 4, 0])
    np.testing.assert_array_equal(place(np.array([-1, 100], np.int8), 300), [299, 100])


def test_one_form_as_text_and_as_json() -> None:
    expr = row("v0")
    assert expr_text(expr) == "(x[v0, a1] with v0 = i[a0] in 0..4)"
    assert expr_from_json(json.loads(json.dumps(expr_json(expr)))) == expr


def test_names_are_given_in_order_also_to_what_stands_there_twice() -> None:
    twice = rename_lookups(apply("add", row("p"), row("p")), (f"v{i}" for i in count()))
    assert twice == apply("add", row("v0"), row("v1"))


def test_what_is_looked_up_is_a_whole_number() -> None:
    kinds = {"i": DType.I32, "x": DType.F32}
    assert expr_type(row("v0"), kinds.__getitem__) is DType.F32
    with pytest.raises(ValueError, match="v0 is looked up as f32"):
        expr_type(row("v0"), {**kinds, "i": DType.F32}.__getitem__)


@pytest.mark.parametrize(
    ("expr", "stray"),
    [
        (row("v0"), None),
        (row("v0").inside, "v0"),
        (replace(row("v0"), value=row("v0").inside), "v0"),
        (Lookup(LookedUp("v0", 4), Load("i", at(0)), row("v0")), "v0"),
        (Lookup(LookedUp("v0", 5), Load("i", at("a0")), row("v0").inside), "v0"),
    ],
)
def test_a_name_is_defined_once_around_its_use(expr: Expr, stray: str | None) -> None:
    assert stray_lookup(expr) == stray


def test_a_known_index_is_an_ordinary_one() -> None:
    known = replace(row("v0"), value=Const(-1, DType.I64))
    assert simplified(known, {"a0": 2, "a1": 3}, {}) == Load("x", at(3, "a1"))


def test_lookups_that_differ_in_names_only_are_one_value() -> None:
    nodes = (node("t", (2, 3), row("p")), node("u", (2, 3), row("q")))
    both = apply("add", Load("t", at("a0", "a1")), Load("u", at("a0", "a1")))
    indices = {"i": np.array([0, -1])}
    made = graph({"x": (4, 3)}, (*nodes, node("y", (2, 3), both)), constants=indices)
    assert [n.output for n in EliminateCommonSubexpressions().run(made).nodes] == ["t", "y"]


def renamed(workload: Workload, name: str) -> Workload:
    stages = tuple(
        replace(s, body=rename_lookups(s.body, (f"{name}{i}" for i in count()))) for s in workload.stages
    )
    return replace(workload, stages=stages)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.startswith("gather")])
def test_equal_work_has_one_digest(kind: str) -> None:
    workload = KINDS[kind]
    verify_workload(workload)
    canonical = canonicalise(workload).workload
    verify_workload(canonical)
    assert canonicalise(renamed(workload, "other")).workload.digest == canonical.digest
    assert canonicalise(canonical).workload == canonical


def test_axes_that_one_lookup_depends_on_are_merged_with_it() -> None:
    def element(found: Index) -> Expr:
        return Load("x1", (found,))

    body = looked_up("v0", 50, Load("x0", at("s0", "s1")), element)
    workload = chain((integers("x0", 3, 4), operand("x1", 50)), row_stage("map", (3, 4), body, "y0"))
    merged = canonicalise(workload).workload
    assert [a.size for a in merged.stages[0].axes] == [12]
    assert [o.sizes for o in merged.operands] == [(12,), (50,)]


def test_a_name_for_people_and_the_ranges_of_indices() -> None:
    assert describe(gather_rows(31, 45, 9)) == "map gather+add 9x45"
    assert index_extents(gather_rows(31, 45, 9)) == {"x0": 31}
    assert index_extents(gather_pairs(11, 19)) == {"x0": 5, "x1": 6}


def test_the_reference_reads_what_the_indices_say() -> None:
    workload = gather_rows(31, 45, 9)
    operands = random_operands(workload)
    expected = operands["x1"].astype(np.float64)[place(operands["x0"], 31)] + operands["x2"]
    np.testing.assert_array_equal(reference_outputs(workload, operands)["y0"], expected)


def test_a_stage_is_not_computed_where_only_the_data_know_what_is_needed() -> None:
    double = apply("add", Load("x1", at("s0", "s1")), Load("x1", at("s0", "s1")))

    def twice(found: Index) -> Expr:
        return Load("t0", (found, Index.of("s1")))

    body = looked_up("v0", 6, Load("x0", at("s0")), twice)
    stages = (row_stage("double", (6, 8), double, "t0"), row_stage("pick", (6, 8), body, "y0"))
    workload = chain((integers("x0", 6), operand("x1", 6, 8)), *stages)
    with pytest.raises(ScheduleError, match="only known at run time"):
        replay(workload, Schedule((ComputeAt("double", "pick", "s0"),)))


def test_a_stray_name_is_a_bug() -> None:
    workload = gather_rows(31, 45, 9)
    body = apply("add", row("v0", "x2").inside, Load("x2", at("s0", "s1")))
    broken = replace(workload, stages=(replace(workload.stages[0], body=body),))
    with pytest.raises(CompileError, match="v0, which no lookup around it defines"):
        verify_workload(broken)
