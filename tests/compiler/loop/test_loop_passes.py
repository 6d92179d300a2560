"""Simplify and peel keep what a nest computes; the interpreter is the judge."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.evaluate import reference_outputs
from compiler.index import Index
from compiler.loop.interpreter import interpret
from compiler.loop.ir import Extent, For, If, LoopKind, LoopNest, Store, walk_statements
from compiler.loop.peel import peel
from compiler.loop.simplify import simplify
from compiler.scalar import Bound, Const, Guard, Load, apply, walk
from compiler.schedule.lower import lower
from compiler.schedule.primitives import replay
from compiler.space.rules import build_space
from compiler.target import PRESETS
from compiler.workload.ir import Workload
from tests.compiler.execute import relative_error
from tests.compiler.workloads import (
    KINDS,
    anchored,
    convolution,
    depthwise,
    matmul,
    operand,
    random_operands,
    windows,
)

INTERPRETABLE = 300_000
"""Operations beyond which the interpreter takes too long."""


def run(nest: LoopNest, workload: Workload) -> np.ndarray:
    operands = random_operands(workload)
    arrays = {"y0": np.full(workload.outputs[0].sizes, np.nan, np.float32)}
    for buffer in nest.params:
        if buffer.role in ("input", "constant"):
            source = operands[buffer.name]
            arrays[buffer.name] = source if buffer.packing is None else buffer.packing.apply(source)
    interpret(nest, arrays)
    return arrays["y0"]


def scheduled(workload: Workload, seed: int, target: str) -> LoopNest:
    space = build_space(workload, PRESETS[target], 2)
    return lower(replay(workload, space.schedule(space.sample(random.Random(seed)))), "nest")


@pytest.mark.parametrize("kind", [kind for kind, w in KINDS.items() if w.operations <= INTERPRETABLE])
def test_passes_keep_the_result_and_are_idempotent(kind: str) -> None:
    workload = KINDS[kind]
    nest = scheduled(workload, 1, "x86-64-v3")
    expected = reference_outputs(workload, random_operands(workload))["y0"]
    simple = simplify(nest)
    peeled = peel(simple)
    assert simplify(simple) is simple
    assert peel(peeled) is peeled
    for version in (nest, simple, peeled):
        assert relative_error(run(version, workload), expected) < 1e-5


@settings(max_examples=25, deadline=None)
@given(
    size=st.integers(1, 4),
    ic=st.integers(1, 5),
    oc=st.integers(1, 19),
    kernel=st.sampled_from((1, 2, 3)),
    stride=st.integers(1, 2),
    seed=st.integers(0, 1000),
    target=st.sampled_from(sorted(PRESETS)),
)
def test_any_shape_under_any_schedule(
    size: int, ic: int, oc: int, kernel: int, stride: int, seed: int, target: str
) -> None:
    workload = convolution(size, ic, oc, kernel, stride)
    expected = reference_outputs(workload, random_operands(workload))["y0"]
    nest = peel(simplify(scheduled(workload, seed, target)))
    assert relative_error(run(nest, workload), expected) < 1e-5


@pytest.mark.parametrize("workload", [matmul(13, 53, 7), depthwise(7, 35), convolution(7, 3, 37, 3)])
def test_edges_are_vectors_with_known_extents(workload: Workload) -> None:
    """Ragged extents never leave a vector or unrolled loop whose extent is only known at run time."""
    for seed in range(20):
        nest = peel(simplify(scheduled(workload, seed, "x86-64-v4")))
        copied = (LoopKind.VECTOR, LoopKind.UNROLLED)
        loops = [s for s in walk_statements(nest.body) if isinstance(s, For)]
        unrolled = {loop.var for loop in loops if loop.kind in copied}
        for loop in loops:
            if loop.kind in copied and loop.extent.bound is not None:
                assert loop.extent.bound.names() <= unrolled


def test_extent_texts() -> None:
    assert str(Extent(4)) == "4"
    assert str(Extent(4, Index.of("i") * -4 + 10)) == "min(4, -i*4 + 10)"


def test_both_ends_of_a_window_along_the_lanes_get_constant_masks() -> None:
    size, reach = 32, 5
    place = Index.of("s1") + Index.of("r0") - reach // 2
    near = Guard((Bound(place, 0, size),), Load("x0", (Index.of("s0"), place)), Const(0.0))
    workload = anchored((4, size), (reach,), "sum", apply("mul", near, near), (operand("x0", 4, size),))
    space = build_space(workload, PRESETS["x86-64-v3"], 1)
    values = space.values(space.default) | {"vectors": 2, "rows": 2}
    nest = peel(simplify(lower(replay(workload, space.build(values)), "kernel")))
    loops = {s.var: s for s in walk_statements(nest.body) if isinstance(s, For)}
    stored = [s.value for s in walk_statements(nest.body) if isinstance(s, Store)]
    tests = [b for value in stored for e in walk(value) if isinstance(e, Guard) for b in e.bounds]
    assert tests
    assert all(loops[str(n)].kind is not LoopKind.SERIAL for b in tests for n in b.index.names())
    np.testing.assert_allclose(
        run(nest, workload), reference_outputs(workload, random_operands(workload))["y0"], rtol=1e-5
    )


@pytest.mark.parametrize(
    ("size", "taps", "rows", "beside"),
    [
        pytest.param(8, 3, 4, 4, id="two tiles, both at a border"),
        pytest.param(7, 5, 4, 3, id="three, and the windows of the last two reach over it"),
        pytest.param(13, 5, 4, 3, id="a short tile, and the one before"),
    ],
)
def test_tiles_at_borders_know_what_is_outside(size: int, taps: int, rows: int, beside: int) -> None:
    workload = windows(size, 32, taps=taps, reducer="max", outside=float("-inf"))
    space = build_space(workload, replace(PRESETS["x86-64-v4"], l1_bytes=1 << 10), 1)
    chosen = {"algorithm": "down", "rows": rows, "beside": beside, "vectors": 1, "unroll": 4}
    values = space.values(space.default) | chosen
    nest = peel(simplify(lower(replay(workload, space.build(values)), "kernel")))
    loops = {s.var: s for s in walk_statements(nest.body) if isinstance(s, For)}
    stored = [s.value for s in walk_statements(nest.body) if isinstance(s, Store)]
    tests = [b for value in stored for e in walk(value) if isinstance(e, Guard) for b in e.bounds]
    outer = {str(n) for b in tests for n in b.index.names() if loops[str(n)].kind is not LoopKind.UNROLLED}
    assert not outer
    expected = reference_outputs(workload, random_operands(workload))["y0"]
    assert relative_error(run(nest, workload), expected) < 1e-5


@pytest.mark.parametrize("size", [5, 7, 9, 13])
def test_the_rest_of_a_serial_loop_follows_it_without_a_test_in_each_iteration(size: int) -> None:
    workload = matmul(8, 16, size)
    space = build_space(workload, PRESETS["x86-64-v3"], 1)
    values = {**space.values(space.default), "unroll": 4}
    nest = peel(simplify(lower(replay(workload, space.build(values)), "kernel")))
    inner = [
        s
        for s in walk_statements(nest.body)
        if isinstance(s, For) and s.kind is LoopKind.SERIAL and size // 4 == s.extent.limit
    ]
    assert inner or size // 4 == 1
    for loop in inner:
        assert not any(isinstance(s, If) for s in walk_statements(loop.body))
    assert (
        relative_error(run(nest, workload), reference_outputs(workload, random_operands(workload))["y0"])
        < 1e-5
    )
