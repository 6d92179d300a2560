"""Sums in several registers: which tiles have them, and that every sum is what it would be."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.codegen.texts import nest_assembly
from compiler.dtype import DType
from compiler.evaluate import reference_outputs
from compiler.index import Index
from compiler.loop.interpreter import interpret
from compiler.loop.ir import Buffer, Extent, For, LoopKind, LoopNest, Stmt, Store, block
from compiler.loop.spread import IN_FLIGHT, spread
from compiler.pipeline import build_nest
from compiler.scalar import Const, Load, apply
from compiler.space.rules import build_space
from compiler.symbol import size_at
from compiler.target import PRESETS
from compiler.workload.ir import Workload
from tests.compiler.execute import relative_error, run_interpreted, run_native
from tests.compiler.loop.test_fold import tiled
from tests.compiler.workloads import (
    at,
    convolution,
    matmul,
    max_pool,
    padded_convolution,
    product,
    random_operands,
)

V3 = PRESETS["x86-64-v3"]


def copies(workload: Workload, rows: int, vectors: int, unroll: int) -> list[int]:
    """Sums in place of one, of each block of statements that has several."""
    nest = build_nest(workload, tiled(workload, rows, vectors, unroll=unroll))
    return [size_at(b.shape[0], {}) for b in nest.buffers if b.name.startswith("t0.p")]


CASES = {
    "one vector": (matmul(1, 8, 64), 1, 1),
    "what is left of the loop": (matmul(3, 16, 39), 1, 2),
    "beside a fold": (matmul(2, 17, 63), 2, 3),
    "a window": (convolution(5, 12, 8, 3), 2, 1),
    "padded borders": (padded_convolution(7, 8, 16, 5), 1, 2),
    "both factors known at run time": (product(2, 3, 8, 24), 3, 1),
}


@pytest.mark.parametrize("case", CASES)
def test_sums_in_several_registers_are_what_they_would_be(case: str) -> None:
    workload, rows, vectors = CASES[case]
    schedule, operands = tiled(workload, rows, vectors), random_operands(workload)
    assert set(copies(workload, rows, vectors, 4)) <= {2, 4}
    assert copies(workload, rows, vectors, 4)
    expected = reference_outputs(workload, operands)["y0"]
    assert relative_error(run_interpreted(workload, schedule, operands), expected) < 1e-5
    assert relative_error(run_native(workload, schedule, operands, target=V3), expected) < 1e-5


def test_there_are_as_many_as_hide_the_latency() -> None:
    assert copies(matmul(1, 8, 64), 1, 1, 8) == [4]
    assert copies(matmul(4, 8, 64), 4, 1, 8) == [2]
    assert copies(matmul(4, 8, 64), 4, 1, 3) == []
    assert copies(matmul(IN_FLIGHT, 8, 64), IN_FLIGHT, 1, 4) == []
    assert copies(max_pool(9, 8), 2, 1, 4) == []


def test_they_are_registers() -> None:
    workload = matmul(1, 8, 512)
    nest = build_nest(workload, tiled(workload, 1, 1))
    lines = nest_assembly(nest, V3).splitlines()
    fused = [line.split(",")[-1].strip() for line in lines if "vfmadd" in line]
    assert len(set(fused)) == 4


def test_the_default_has_them() -> None:
    workload = matmul(1, 8, 512)
    space = build_space(workload, V3, 1)
    assert any(b.name.startswith("t0.p") for b in build_nest(workload, space.schedule(space.default)).buffers)


LANES, DEPTH = 8, 6


def half(k: str, start: int) -> list[Stmt]:
    """A chain of products that adds to one half of t: so many lanes from `start` on, over its own part of the data."""
    place, along = Index.of("l") + start, Index.of(k) * 4 + "u"
    cleared = Store("t", at(place), Const(0.0))
    product = apply("mul", Load("x", at(along + start)), Load("w", at(along, "l")))
    added = Store("t", at(place), apply("add", Load("t", at(place)), product))

    def lanes(store: Stmt) -> For:
        return For("l", Extent(LANES), LoopKind.VECTOR, store)

    turns = For("u", Extent(4), LoopKind.UNROLLED, lanes(added))
    return [lanes(cleared), For(k, Extent(DEPTH), LoopKind.SERIAL, turns)]


def test_chains_of_one_block_that_begin_at_different_places_stay_apart() -> None:
    first, second = half("k", 0), half("j", LANES)
    stored = For("s", Extent(2 * LANES), LoopKind.VECTOR, Store("y", at("s"), Load("t", at("s"))))
    shapes = {"x": (4 * DEPTH + LANES,), "w": (4 * DEPTH, LANES), "t": (2 * LANES,), "y": (2 * LANES,)}
    roles = {"x": "input", "w": "input", "y": "output"}
    buffers = tuple(
        Buffer(name, shape, DType.F32, "global", roles[name])
        if name in roles
        else Buffer(name, shape, DType.F32, "local")
        for name, shape in shapes.items()
    )
    nest = LoopNest("nest", buffers, block(first[0], second[0], first[1], second[1], stored))
    rng = np.random.default_rng(0)
    given = {n: rng.standard_normal(shapes[n]).astype(np.float32) for n in ("x", "w")}
    x, w = given["x"].astype(np.float64), given["w"].astype(np.float64)
    expected = np.concatenate([x[s : s + 4 * DEPTH] @ w for s in (0, LANES)])
    for version in (nest, spread(nest)):
        arrays = {**given, "y": np.full(2 * LANES, np.nan, np.float32)}
        interpret(version, arrays)
        np.testing.assert_allclose(arrays["y"], expected, rtol=1e-5, atol=1e-5)
