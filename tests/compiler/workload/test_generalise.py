"""Generalising: the common form of a thing made for several sizes, and what has none."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from compiler.errors import CompileError
from compiler.index import Index
from compiler.scalar import Bound, Guard, Load
from compiler.symbol import Symbol
from compiler.workload.canonical import canonicalise
from compiler.workload.generalise import DiffersError, generalise, polynomial, sample_values
from compiler.workload.ir import workload_from_json, workload_json
from compiler.workload.specialise import nominal, specialise
from compiler.workload.verify import verify_workload
from tests.compiler.symbolic import BATCH, SYMBOLIC
from tests.compiler.workloads import KINDS

N, M = Symbol("n"), Symbol("m", 1, 512)
ONE, TWO = sample_values((N,)), sample_values((N, M))


def test_numbers_are_fitted_in_several_symbols() -> None:
    assert str(polynomial([3 * p["n"] - 2 * p["m"] + 5 for p in TWO], TWO, "x")) == "-m*2 + n*3 + 5"
    assert polynomial([7] * len(ONE), ONE, "x") == Index.of(7)


def test_products_of_symbols_are_fitted() -> None:
    n, m = Index.of("n"), Index.of("m")
    assert polynomial([12 * p["n"] ** 2 for p in ONE], ONE, "x") == n.times(n) * 12
    assert polynomial([p["n"] ** 2 - 3 * p["n"] + 1 for p in ONE], ONE, "x") == n.times(n) - n * 3 + 1
    assert polynomial([p["n"] * p["m"] for p in TWO], TWO, "x") == n.times(m)
    assert polynomial([12 * p["n"] * p["m"] ** 2 for p in TWO], TWO, "x") == n.times(m).times(m) * 12


@pytest.mark.parametrize(
    "size",
    [
        lambda n: 2**n,
        lambda n: (n + 1) // 2,
        lambda n: n % 4,
        lambda n: min(n, 16),
        lambda n: max(n, 9),
        lambda n: -(-n // 8) * 8,
        lambda n: n * n // 2,
        lambda n: n * n if n < 20 else 20 * n,
    ],
    ids=["power", "half", "remainder", "at most", "at least", "padded", "half of a square", "two forms"],
)
def test_what_is_no_polynomial_is_refused(size: object) -> None:
    with pytest.raises(DiffersError, match="no polynomial of few terms in n"):
        polynomial([size(p["n"]) for p in ONE], ONE, "x")  # type: ignore[operator]


def test_samples_stay_within_ranges_and_avoid_one() -> None:
    values = [p["k"] for p in sample_values((Symbol("k", 1, 4),))]
    assert set(values) <= {2, 3, 4}
    assert len(values) > 1
    assert [p["k"] for p in sample_values((Symbol("k", 6, 6),))] == [6]
    assert all(1 < n < N.high for p in TWO for n in p.values())


def test_structures_that_differ_have_no_common_form() -> None:
    for parts in (
        [("a", 1), ("a", 2)],
        [{"x": 1}, {"y": 1}],
        [(1,), (1, 2)],
        [np.zeros(2), np.zeros(3)],
        [Load("x", (Index.of("i") * 2,)), Load("x", (Index.of("j") * 2,))],
        [Load("x", (Index.of("i") // 2,)), Load("x", (Index.of("i") % 2,))],
        [1, "1"],
    ):
        with pytest.raises(DiffersError):
            generalise(parts, ONE[:2])


def test_steps_and_divisors_may_depend_on_the_size() -> None:
    loop, n = Index.of("i"), Index.of("n")
    found = generalise([Load("x", (loop * p["n"], loop // p["n"])) for p in ONE], ONE)
    assert found == Load("x", (loop.times(n), loop // n))


def test_a_test_against_a_size_compares_with_it() -> None:
    def beside(n: int) -> Guard:
        i = Index.of("i")
        return Guard((Bound(i, 0, n), Bound(i - 2, n - 3, 2 * n)), Load("x", (i,)), Load("y", (i - n,)))

    found = generalise([beside(p["n"]) for p in ONE], ONE)
    for n in (1, 5, 100):
        tests = [replace(b, index=b.index.substitute({"n": Index.of(n)})) for b in found.bounds]
        for i in range(3 * n):
            held = [b.low <= b.index.evaluate({"i": i}) < b.high for b in tests]
            assert all(held) == (i < n and n - 3 <= i - 2 < 2 * n)
    assert found.outside == Load("y", (Index.of("i") - Index.of("n"),))
    assert generalise([beside(4)] * len(ONE), ONE) == beside(4)


def test_equal_parts_come_back_as_the_same_object() -> None:
    workload = KINDS["convolution"]
    assert generalise([workload, replace(workload)], ONE[:2]) is workload


@pytest.mark.parametrize("kind", SYMBOLIC)
def test_the_canonical_form_of_a_symbolic_workload(kind: str) -> None:
    workload = canonicalise(SYMBOLIC[kind]).workload
    verify_workload(workload)
    assert [s.name for s in workload.symbols] == ["n0"]
    assert canonicalise(workload).workload == workload
    again = workload_from_json(json.loads(json.dumps(workload_json(workload))))
    assert again == workload
    assert again.digest == workload.digest
    for n in (2, 5, 64):
        static = canonicalise(specialise(SYMBOLIC[kind], {"n0": n})).workload
        assert specialise(workload, {"n0": n}).digest == static.digest
    assert nominal(workload).digest == specialise(workload, {"n0": BATCH.nominal}).digest


def test_digests_do_not_depend_on_the_model_s_name_for_a_symbol() -> None:
    workload = SYMBOLIC["matmul_rows"]
    named = replace(workload, symbols=(replace(BATCH, name="batch"),))
    text = json.dumps(workload_json(named)).replace('"n0"', '"batch"')
    renamed = workload_from_json(json.loads(text))
    found = canonicalise(renamed)
    assert found.symbols == {"n0": "batch"}
    assert found.workload.digest == canonicalise(workload).workload.digest


def test_static_workloads_keep_their_digests() -> None:
    """Records are kept by digest: a change here orphans every stored one."""
    digests = {
        kind: canonicalise(KINDS[kind]).workload.digest[:16]
        for kind in ("convolution", "matmul", "transpose")
    }
    assert digests == {
        "convolution": "a686c4852a83dbf2",
        "matmul": "47b8695e7f3b4ea1",
        "transpose": "e1d210b52ca3c9b6",
    }


def test_an_access_outside_at_the_largest_size_is_found() -> None:
    workload = SYMBOLIC["add_relu_rows"]
    (stage,) = workload.stages
    wrong = replace(stage, body=Load("x0", (Index.of("s0") * 2, Index.of("s1"))))
    with pytest.raises(CompileError, match="is indexed by"):
        verify_workload(replace(workload, stages=(wrong,)))
