"""Panels of packed constants are fetched ahead: all of the next one, a few lines per iteration, where it pays."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from compiler.codegen.ahead import STREAM, fetched_ahead
from compiler.codegen.texts import nest_ir
from compiler.evaluate import reference_outputs
from compiler.loop.ir import For, LoopKind, Store, walk_statements
from compiler.pipeline import build_nest
from compiler.scalar import loads
from compiler.space.rules import build_space
from compiler.target import LINE_BYTES, PRESETS, native_target
from compiler.workload.ir import Workload
from tests.compiler.execute import native_outputs, stored_error
from tests.compiler.schedule.test_matrices import WITH_MATRICES
from tests.compiler.workloads import matmul, padded_convolution, random_operands

V3 = PRESETS["x86-64-v3"]
LARGE = matmul(40, 512, 768)
"""Its constants do not fit in the second cache of the Target."""


@pytest.mark.parametrize(
    ("workload", "rows"),
    [
        pytest.param(LARGE, 0, id="one line each"),
        pytest.param(matmul(17, 512, 768), 4, id="five reads"),
        pytest.param(matmul(24, 512, 768), 12, id="two reads"),
    ],
)
def test_the_iterations_of_one_panel_fetch_all_of_the_next(workload: Workload, rows: int) -> None:
    """`rows`: of a tile, with one vector; 0 for the default tile."""
    space = build_space(workload, V3, 1)
    values = {**space.values(space.default), "order": "outside", "depth": 768}
    nest = build_nest(workload, space.build(values | ({"rows": rows, "vectors": 1} if rows else {})))
    (constant,) = [b for b in nest.params if b.packing is not None]
    panels, *_ = constant.shape
    panel = constant.elements // int(panels)
    fetching = fetched_ahead(nest.body, nest.by_name, V3)
    (loop, ahead), *_ = [
        (s, fetching[id(s)][0])
        for s in walk_statements(nest.body)
        if isinstance(s, For) and id(s) in fetching
    ]
    around = [s for s in walk_statements(nest.body) if isinstance(s, For) and loop in walk_statements(s)]
    assert {s.kind for s in around} <= {LoopKind.SERIAL, LoopKind.PARALLEL}
    outer, *inner = around
    fetched = set()
    for places in product(*(range(s.extent.limit) for s in inner)):
        values = {outer.var: 2, **dict(zip((s.var for s in inner), places, strict=True))}
        start = ahead.place.evaluate(values) * 4
        fetched |= {(start + LINE_BYTES * n) // LINE_BYTES for n in range(ahead.lines)}
    first, last = 3 * panel * 4 // LINE_BYTES, (4 * panel * 4 - 1) // LINE_BYTES
    # Iterations that the code of the edges leaves out miss little.
    assert len(fetched & set(range(first, last + 1))) >= 0.9 * (last + 1 - first)
    # A share that is no whole number is rounded up.
    assert max(fetched) <= last + 1 + (last - first) // 50


def test_the_code_of_edges_fetches_too() -> None:
    workload = padded_convolution(18, 256, 72, 3, 2)
    space = build_space(workload, V3, 1)
    nest = build_nest(workload, space.build({**space.values(space.default), "order": "outside"}))
    ahead = fetched_ahead(nest.body, nest.by_name, V3)
    packed = {b.name for b in nest.params if b.packing is not None}
    loops = [s for s in walk_statements(nest.body) if isinstance(s, For) and s.kind is LoopKind.SERIAL]
    innermost = [
        s for s in loops if not any(inner in loops for inner in walk_statements(s.body)) and packed & _read(s)
    ]
    assert len(innermost) > 2
    assert {id(s) for s in innermost} == ahead.keys()


def _read(loop: For) -> set[str]:
    return {
        load.buffer for s in walk_statements(loop.body) if isinstance(s, Store) for load in loads(s.value)
    }


@pytest.mark.parametrize(
    "workload",
    [
        pytest.param(matmul(40, 64, 64), id="the second cache holds all panels"),
        pytest.param(matmul(1, 2048, 2048), id="nothing is read again"),
    ],
)
def test_nothing_is_fetched_where(workload: Workload) -> None:
    space = build_space(workload, V3, 1)
    text = nest_ir(build_nest(workload, space.schedule(space.default)), V3)
    assert "prefetch" not in text


@pytest.mark.parametrize("threads", [1, 2])
def test_results_stay_the_same(threads: int) -> None:
    target = replace(native_target(), l2_bytes=V3.l2_bytes)
    space = build_space(LARGE, target, threads)
    knobs = {"order": "outside", "rows": 4, "vectors": 2}
    schedule = space.build({**space.values(space.default), **knobs})
    assert "llvm.prefetch" in nest_ir(build_nest(LARGE, schedule), target)
    operands = random_operands(LARGE)
    got = native_outputs(LARGE, schedule, operands, threads, target)
    assert stored_error(LARGE, got, reference_outputs(LARGE, operands)) < 1e-5


@pytest.mark.parametrize(
    ("workload", "rows"),
    [
        pytest.param(padded_convolution(5, 64, 64, 3), 33, id="windows share data"),
        pytest.param(matmul(16, 64, 512), 16, id="rows do not"),
    ],
)
def test_matrices_fetch_what_they_read_once_into_the_first_cache_for_windows(
    workload: Workload, rows: int
) -> None:
    target = replace(WITH_MATRICES, l2_bytes=16 * 1024)
    space = build_space(workload, target, 1)
    plan = next(a for a in (space.default, *space.starts) if space.values(a)["algorithm"] == "parts")
    nest = build_nest(
        workload, space.build({**space.values(plan), "rows": rows, "vectors": 1, "order": "outside"})
    )
    (constant,) = [b for b in nest.params if b.packing is not None]
    found = [ahead for aheads in fetched_ahead(nest.body, nest.by_name, target).values() for ahead in aheads]
    assert bool(found) == (rows == 33)
    for ahead in found:
        assert ahead.near
        assert ahead.buffer == constant.name
        assert ahead.place.const * constant.dtype.size_bytes == STREAM
        assert ahead.lines == 2 * 16  # both parts of a matrix
