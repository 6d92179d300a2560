"""Values that are put together are stored where they end up."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.graph.evaluate import evaluate_graph
from compiler.graph.ir import Graph
from compiler.pipeline import compile_program, lower
from compiler.runtime.memory_plan import plan_memory
from compiler.scalar import Bound, Const, Expr, Guard, apply
from compiler.schedule.source import NoSource
from compiler.target import native_target
from compiler.workload.evaluate import evaluate_program
from compiler.workload.partition import partition
from compiler.workload.program import Program
from compiler.workload.verify import verify_program
from tests.compiler.workload.graphs import GraphBuilder, index, load, random_inputs


def join(b: GraphBuilder, dim: int, *values: str) -> str:
    """As the frontend writes Concat."""
    shapes = [b.shapes[value] for value in values]
    sizes = [shape[dim] for shape in shapes]
    shape = (*shapes[0][:dim], sum(sizes), *shapes[0][dim + 1 :])

    def moved(place: int) -> Expr:
        start = sum(sizes[:place])
        names = [index(f"a{d}") - (start if d == dim else 0) for d in range(len(shape))]
        return load(values[place], *names)

    body = moved(len(values) - 1)
    for place in reversed(range(len(values) - 1)):
        test = Bound(index(f"a{dim}"), sum(sizes[:place]), sum(sizes[: place + 1]))
        body = Guard((test,), moved(place), body)
    return b.node(shape, body)


def checked(graph: Graph) -> Program:
    """The Program: valid, right Subgraph by Subgraph in float64, right as machine code."""
    program = partition(graph)
    verify_program(program)
    inputs = random_inputs(graph)
    expected = evaluate_graph(graph, inputs)
    actual = evaluate_program(program, inputs)
    narrow = {name: array.astype(np.float32) for name, array in inputs.items()}
    module = compile_program(lower(graph), native_target(), 2, NoSource())
    for _ in range(2):
        got = module.run(narrow)
    for name, values in expected.items():
        np.testing.assert_allclose(actual[name], values, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(got[name], values, rtol=1e-3, atol=1e-4)
    return program


def copies(program: Program) -> int:
    """Subgraphs that only move, those at the interface not counted."""
    inner = [
        s
        for s in program.subgraphs
        if not {*s.bindings.values()} & (program.inputs.keys() | program.outputs.keys())
    ]
    return sum(
        all(stage.reducer is None and not stage.operations for stage in s.workload.stages) for s in inner
    )


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_two_convolutions_store_their_halves_of_the_join(dim: int) -> None:
    b = GraphBuilder()
    x = b.relu(b.conv(b.input("x", 1, 3, 6, 6), 8))
    whole = join(b, dim, b.relu(b.conv(x, 8)), b.bias(b.conv(x, 8, 3, pad=1)))
    program = checked(b.graph(b.conv(whole, 5)))
    assert len(program.wholes) == 2
    assert copies(program) == 0


@pytest.mark.parametrize("dim", [1, 2])
def test_a_padded_convolution_reads_the_join(dim: int) -> None:
    b = GraphBuilder()
    x = b.relu(b.conv(b.input("x", 1, 3, 6, 6), 8))
    whole = join(b, dim, b.relu(b.conv(x, 8)), b.conv(x, 8, 3, pad=1))
    program = checked(b.graph(b.conv(whole, 5, 3, pad=1)))
    assert len(program.wholes) == 2
    assert program.layouts[whole].has_halo
    assert plan_memory(program, [{} for _ in program.subgraphs]).zeroed_bytes > 0


@pytest.mark.parametrize("first", ["a0", 0])
def test_a_mean_of_the_join_reads_one_value(first: str | int) -> None:
    b = GraphBuilder()
    x = b.relu(b.conv(b.input("x", 1, 3, 6, 6), 8))
    whole = join(b, 1, b.relu(b.conv(x, 8)), b.bias(b.conv(x, 8)))
    total = b.node((1, 16, 1, 1), load(whole, first, "a1", "r0", "r1"), (6, 6), "sum")
    program = checked(b.graph(b.node((1, 16), apply("mul", load(total, 0, "a1", 0, 0), Const(1 / 36)))))
    assert whole in program.layouts
    assert copies(program) == 0


def test_a_join_of_joins_is_one_value_in_memory() -> None:
    b = GraphBuilder()
    x = b.relu(b.conv(b.input("x", 1, 3, 6, 6), 8))
    y = b.relu(b.conv(x, 4, 3, pad=1))
    first = join(b, 1, b.bias(b.conv(x, 8)), y)
    z = b.relu(b.conv(b.relu(first), 4))
    program = checked(b.graph(b.conv(join(b, 1, first, z), 3)))
    assert len(program.wholes) == 4
    assert len({program.home(part) for part in program.wholes}) == 1
    assert copies(program) == 0


def test_a_part_is_read_by_others_too() -> None:
    b = GraphBuilder()
    x = b.relu(b.conv(b.input("x", 1, 3, 6, 6), 8))
    part, other = b.relu(b.conv(x, 8)), b.conv(x, 4)
    whole = join(b, 1, part, other)
    program = checked(b.graph(b.conv(whole, 5), b.conv(part, 3), b.pool(part, 3, 2, 0)))
    assert program.wholes.keys() == {part, other}


def test_zeros_around_a_part_are_not_where_another_part_is() -> None:
    b = GraphBuilder()
    x = b.relu(b.conv(b.input("x", 1, 3, 12, 12), 8))
    part, other = b.relu(b.conv(x, 8)), b.conv(x, 8)
    whole = join(b, 2, part, other)
    program = checked(b.graph(b.conv(whole, 5, 3, pad=1), b.conv(part, 3, 3, pad=1)))
    assert set(program.wholes) == {other, f"{whole}.part"}
    assert copies(program) == 1


def test_what_the_model_is_given_is_copied_into_a_join() -> None:
    b = GraphBuilder()
    given = b.input("x", 1, 8, 6, 6)
    x = b.relu(b.conv(given, 8))
    first, second = join(b, 1, x, given), join(b, 1, given, given)
    program = checked(b.graph(b.conv(first, 5), b.conv(second, 2)))
    assert program.wholes == {x: first, f"{first}.part": first}


def test_what_a_join_has_twice_is_copied_once() -> None:
    b = GraphBuilder()
    x = b.relu(b.conv(b.input("x", 1, 3, 6, 6), 8))
    whole = join(b, 1, x, x)
    program = checked(b.graph(b.conv(whole, 5)))
    assert program.wholes == {x: whole, f"{whole}.part": whole}
    assert copies(program) == 1


def test_what_is_spread_over_a_plane_is_written_beside_the_other_parts() -> None:
    """The image's mean, as in a pyramid of poolings, joined with what convolutions make of the image."""
    b = GraphBuilder()
    x = b.relu(b.conv(b.input("x", 1, 3, 6, 6), 8))
    one, two = b.relu(b.conv(x, 8)), b.relu(b.conv(x, 16, 3, pad=1))
    mean = b.relu(b.conv(b.mean(x), 8))
    names = [index(f"a{d}") for d in range(4)]
    spread, last = load(mean, 0, names[1] - 8, 0, 0), load(two, names[0], names[1] - 16, *names[2:])
    first, second = Bound(names[1], 0, 8), Bound(names[1], 8, 16)
    whole = b.node((1, 32, 6, 6), Guard((first,), load(one, *names), Guard((second,), spread, last)))
    program = checked(b.graph(b.conv(whole, 5)))
    assert program.wholes == {one: whole, f"{whole}.part": whole, two: whole}


def test_what_the_model_gives_row_major_is_a_part_in_the_order_of_the_inside() -> None:
    b = GraphBuilder()
    x = b.relu(b.conv(b.input("x", 1, 3, 6, 6), 16))
    answer = b.relu(b.conv(x, 16))
    whole = join(b, 1, x, answer)
    program = checked(b.graph(answer, b.conv(whole, 16)))
    assert program.wholes == {x: whole, f"{answer}@stored": whole}


def test_a_value_is_part_of_one_join_only() -> None:
    b = GraphBuilder()
    x = b.relu(b.conv(b.input("x", 1, 3, 6, 6), 8))
    one, two, three = (b.relu(b.conv(x, 8)) for _ in range(3))
    first, second = join(b, 1, one, two), join(b, 1, two, three)
    program = checked(b.graph(b.conv(first, 5), b.conv(second, 5)))
    assert program.wholes == {one: first, f"{first}.part": first, two: second, three: second}


def test_other_selections_are_no_joins() -> None:
    b = GraphBuilder()
    x = b.relu(b.conv(b.input("x", 1, 3, 6, 6), 8))
    one, two = b.relu(b.conv(x, 8)), b.conv(x, 8)
    names = [index(f"a{d}") for d in range(4)]
    shifted = Guard(
        (Bound(names[2], 0, 3),), load(one, names[0], names[1], names[2] + 3, names[3]), load(two, *names)
    )
    doubled = Guard((Bound(names[2], 0, 3),), load(one, *names), apply("neg", load(two, *names)))
    values = [b.node((1, 8, 6, 6), body) for body in (shifted, doubled)]
    program = checked(b.graph(*(b.conv(value, 5) for value in values)))
    assert not program.wholes


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("place", [0, 1])
def test_the_beginning_of_a_value_is_no_part_of_a_join(dim: int, place: int) -> None:
    b = GraphBuilder()
    x = b.relu(b.conv(b.input("x", 1, 3, 6, 6), 8))
    larger, other = b.relu(b.conv(x, 8)), b.relu(b.conv(x, 8))
    names = [index(f"a{d}") for d in range(4)]
    moved = [n - (2 if d == dim else 0) for d, n in enumerate(names)]
    first, last = (larger, other) if place == 0 else (other, larger)
    shape = tuple(4 if d == dim else n for d, n in enumerate((1, 8, 6, 6)))
    whole = b.node(shape, Guard((Bound(names[dim], 0, 2),), load(first, *names), load(last, *moved)))
    program = checked(b.graph(b.conv(whole, 5), b.conv(larger, 3)))
    assert not program.wholes


def test_a_part_that_is_larger_in_another_dimension_is_copied() -> None:
    b = GraphBuilder()
    x = b.relu(b.conv(b.input("x", 1, 3, 6, 6), 8))
    one, two = b.relu(b.conv(x, 8)), b.relu(b.conv(x, 8))
    names = [index(f"a{d}") for d in range(4)]
    moved = [names[0], names[1] - 8, *names[2:]]
    whole = b.node((1, 16, 4, 6), Guard((Bound(names[1], 0, 8),), load(one, *names), load(two, *moved)))
    program = checked(b.graph(b.conv(whole, 5)))
    assert not program.wholes
