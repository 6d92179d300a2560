"""What is counted of a model, and the bound that follows from it."""

from __future__ import annotations

import math

import onnx
import pytest

from benchmarks.kernel_models import convolution, pool, total, transposed_convolution, unary
from benchmarks.work import (
    Work,
    count_work,
    divisions_of,
    emitted,
    instructions_of,
    multiplications_of,
    points,
)
from compiler.graph.pipeline import optimise
from compiler.index import Index
from compiler.pipeline import load_graph
from compiler.scalar import Bound
from compiler.target import PRESETS
from luthier.bench.ceilings import Ceilings

FLOAT = 4
V3 = PRESETS["x86-64-v3"]


def count(model: onnx.ModelProto, target: str = "x86-64-v3") -> Work:
    return count_work(optimise(load_graph(model)), PRESETS[target])


def taps(size: int, kernel: int, stride: int = 1) -> int:
    """Pairs of an output and a tap that lie inside, along one axis padded by half the kernel."""
    pad = kernel // 2
    outputs = (size + 2 * pad - kernel) // stride + 1
    return sum(0 <= o * stride + k - pad < size for o in range(outputs) for k in range(kernel))


@pytest.mark.parametrize(("size", "kernel", "stride"), [(9, 3, 1), (10, 5, 2), (7, 1, 2)])
def test_padded_taps_of_a_convolution_are_not_counted(size: int, kernel: int, stride: int) -> None:
    work = count(convolution(3, 5, (size, size), (kernel, kernel), stride=stride))
    outputs = (size - 1) // stride + 1
    assert work.multiply_adds == 3 * 5 * taps(size, kernel, stride) ** 2
    # The bias and the ReLU are two instructions a result.
    assert work.instructions == work.multiply_adds + 2 * 5 * outputs**2
    read = size if kernel > 1 or stride == 1 else outputs
    assert work.bytes == FLOAT * (3 * read**2 + 5 * 3 * kernel**2 + 5 + 5 * outputs**2)


def test_zeros_between_the_elements_of_a_transposed_convolution_are_not_counted() -> None:
    work = count(transposed_convolution(3, 5, (6, 6), (3, 3), 2))
    assert work.multiply_adds == 6 * 6 * 3 * 5 * 9


def test_padded_taps_of_a_pool_are_not_counted() -> None:
    work = count(pool("MaxPool", 4, 11, 3, 2))
    assert work.multiply_adds == 0
    assert work.instructions == work.operations == 4 * taps(11, 3, 2) ** 2
    assert work.bytes == FLOAT * 4 * (11 * 11 + 6 * 6)


def test_a_repeated_exponential_counts_once() -> None:
    work = count(unary("Softmax", (5, 7)))
    rows, elements = 5, 35
    short = emitted("exp", V3, (-math.inf, 0.0), rounded=True)
    assert len(short) < len(emitted("exp", V3))
    # The largest, a difference, its exponential, a sum, and the final product for each element; one division a row.
    assert work.instructions == elements * (4 + len(short)) + rows
    assert work.multiplications == elements * (1 + multiplications_of("exp", short))
    assert work.divisions == rows


def test_an_exponential_counts_as_the_target_computes_it() -> None:
    """A table of powers instead of a longer polynomial, where an instruction looks up: five products a result."""
    products = {
        name: count(unary("Softmax", (5, 7)), name).multiplications for name in ("x86-64-v3", "x86-64-v4")
    }
    assert products == {"x86-64-v3": 35 * (1 + 8), "x86-64-v4": 35 * (1 + 5)}


def test_what_is_emitted_twice_counts_once() -> None:
    """The square of the rest stands in the polynomial and beside it."""
    lines = emitted("exp", V3, (-math.inf, 0.0), rounded=True)
    assert sum("fmul" in line for line in lines) == 1


def test_a_sum_moves_its_input_and_its_result() -> None:
    assert count(total((6, 8), (0,))) == Work(0, 48, 0, 0, FLOAT * 48, FLOAT * 8)


def test_elementary_functions_count_what_is_emitted() -> None:
    lines = {op: emitted(op, V3) for op in ("add", "div", "exp", "sigmoid")}
    assert instructions_of("add", lines["add"]) == 1
    assert instructions_of("exp", lines["exp"]) > 10
    assert [divisions_of(op, lines[op]) for op in ("div", "exp", "sigmoid")] == [1, 0, 1]


def test_bounds_that_share_a_name_are_counted_together() -> None:
    ranges = {"a": 4, "b": 3, "c": 5}
    bounds = [Bound(Index.of("a") + "b", 0, 3), Bound(Index.of("a"), 1, 4)]
    assert points(set(ranges), bounds, ranges) == 5 * sum(
        0 <= a + b < 3 and 1 <= a < 4 for a in range(4) for b in range(3)
    )


def test_the_bound_is_the_slowest_part() -> None:
    rates = {
        "multiply_add": 100.0,
        "issue": 10.0,
        "divide": 1.0,
        "l1": 50.0,
        "l2": 20.0,
        "l3": 10.0,
        "memory": 5.0,
        "l1 copy": 100.0,
        "l2 copy": 16.0,
        "memory copy": 4.0,
    }
    capacities = {"l1": 100.0, "l2": 1000.0, "l3": 10_000.0, "memory": float("inf")}
    ceilings = Ceilings(4, rates, capacities)
    assert Work(500, 500, 0, 0, 100, 0).bound(ceilings) == (12.5, "issue")
    assert Work(5000, 100, 0, 0, 100, 0).bound(ceilings) == (100.0, "multiply_add")
    assert Work(0, 5000, 5000, 0, 100, 0).bound(ceilings) == (125.0, "issue")
    assert Work(2500, 100, 2500, 0, 100, 0).bound(ceilings) == (100.0, "multiply_add")
    assert Work(0, 4, 0, 4, 10, 0).bound(ceilings) == (1.0, "divide")
    assert Work(0, 4, 0, 0, 100, 0).bound(ceilings) == (pytest.approx(2), "l1")
    assert Work(0, 4, 0, 0, 101, 0).bound(ceilings) == (pytest.approx(101 / 20), "l2")
    assert Work(0, 4, 0, 0, 50_000, 0).bound(ceilings) == (pytest.approx(10_000), "memory")
    # A written byte takes what a copied pair takes longer than a read byte, and never less than that.
    assert Work(0, 4, 0, 0, 200, 400).bound(ceilings) == (pytest.approx(40), "l2")
    assert Work(0, 4, 0, 0, 50, 50).bound(ceilings) == (pytest.approx(2), "l1")
