"""Slices of data are fetched ahead: all lines of the next one, while the sums of one are added up, where it pays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from compiler.codegen.ahead import fetched_ahead
from compiler.codegen.fetches import Ahead, innermost, is_serial, places_read
from compiler.codegen.texts import nest_ir
from compiler.evaluate import reference_outputs
from compiler.loop.ir import For, If, Let, LoopNest, Stmt, sub_statements
from compiler.pipeline import build_nest
from compiler.space.rules import build_space
from compiler.target import LINE_BYTES, PRESETS, native_target
from compiler.workload.ir import Workload
from tests.compiler.execute import native_outputs, stored_error
from tests.compiler.workloads import matmul, padded_convolution, places_last, random_operands, transpose

TARGET = replace(PRESETS["x86-64-v3"], l2_bytes=256 * 1024)
ROWS = matmul(600, 128, 128)
"""Rows of data follow each other, more than half of the Target's second cache; several panels of columns read them."""
CHANNELS = places_last(1400, 64, 40)
"""Channels are 1,400 elements long, of each of which a tile reads some."""
COPIED = places_last(3136, 256, 40)
"""The same of channels that a tile copies side by side first."""


def nest_of(workload: Workload, **knobs: object) -> LoopNest:
    space = build_space(workload, TARGET, 1)
    return build_nest(workload, space.build({**space.values(space.default), **knobs}))


def fetched(
    stmt: Stmt, fetching: dict[int, list[Ahead]], values: dict[str, int]
) -> Iterator[tuple[Ahead, int]]:
    """What a statement asks for, and from which element on; of branches the first counts."""
    match stmt:
        case For(var, extent) if is_serial(stmt):
            for number in range(extent.limit):
                inside = {**values, var: number}
                for ahead in fetching.get(id(stmt), ()):
                    yield ahead, ahead.place.evaluate(inside)
                yield from fetched(stmt.body, fetching, inside)
        case If():
            yield from fetched(stmt.then, fetching, values)
        case Let(var, value):
            yield from fetched(stmt.body, fetching, {**values, var: value.evaluate(values)})
        case _:
            for child in sub_statements(stmt):
                yield from fetched(child, fetching, values)


def lines(start: int, stop: int) -> set[int]:
    """Lines of the elements from one to before another, of four bytes each."""
    return set(range(start * 4 // LINE_BYTES, (stop * 4 - 1) // LINE_BYTES + 1))


@pytest.mark.parametrize(
    ("workload", "rows", "stride", "knobs"),
    [
        pytest.param(ROWS, 1, 0, {"order": "block4"}, id="one run"),
        pytest.param(CHANNELS, 64, 1400, {"order": "outside"}, id="rows far apart"),
        pytest.param(COPIED, 256, 3136, {"order": "outside"}, id="rows that are copied"),
    ],
)
def test_one_slice_fetches_all_lines_of_the_next(
    workload: Workload, rows: int, stride: int, knobs: dict[str, object]
) -> None:
    nest = nest_of(workload, **knobs)
    (data,) = [b for b in nest.params if b.role == "input"]
    assert any(b.scope == "local" for b in nest.buffers) == (workload is COPIED)
    outer = nest.body
    assert isinstance(outer, For)
    reads = [
        place
        for loop, lets in innermost(outer, {})
        for _, place in places_read(loop, {"x0"}, nest.by_name, lets)
    ]
    step = max(place.coefficient(outer.var) for place in reads)
    asked = set()
    for ahead, start in fetched(outer.body, fetched_ahead(nest.body, nest.by_name, TARGET), {outer.var: 1}):
        assert ahead.buffer == data.name
        asked |= {start * 4 // LINE_BYTES + line for line in range(ahead.lines)}
    here = set().union(*(lines(row * stride + step, row * stride + 2 * step) for row in range(rows)))
    there = set().union(*(lines(row * stride + 2 * step, row * stride + 3 * step) for row in range(rows)))
    assert there - here
    assert there - here <= asked
    # A share that is no whole number is rounded up: a little of the slice after the next one comes as well.
    assert len(asked - there) <= 0.3 * len(there)


@pytest.mark.parametrize(
    "workload",
    [
        pytest.param(matmul(200, 128, 128), id="the second cache holds the data"),
        pytest.param(matmul(600, 8, 128), id="one panel of columns reads it"),
        pytest.param(padded_convolution(40, 32, 64, 3, 2), id="windows have read most of it before"),
        pytest.param(transpose(400, 400), id="nothing is summed up meanwhile"),
    ],
)
def test_nothing_is_fetched_where(workload: Workload) -> None:
    assert "prefetch" not in nest_ir(nest_of(workload), TARGET)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("workload", [ROWS, CHANNELS, COPIED], ids=["rows", "channels", "copied"])
def test_results_stay_the_same(workload: Workload, threads: int) -> None:
    target = replace(native_target(), l2_bytes=TARGET.l2_bytes)
    space = build_space(workload, target, threads)
    order = "block4" if workload is ROWS else "outside"
    schedule = space.build({**space.values(space.default), "order": order})
    assert "llvm.prefetch" in nest_ir(build_nest(workload, schedule), target)
    operands = random_operands(workload)
    got = native_outputs(workload, schedule, operands, threads, target)
    assert stored_error(workload, got, reference_outputs(workload, operands)) < 1e-5


def test_panels_of_constants_and_slices_of_data_come_in_one_nest() -> None:
    """Both are too large for the second cache."""
    nest = nest_of(matmul(256, 512, 512), order="block14", depth=512)
    fetching = fetched_ahead(nest.body, nest.by_name, TARGET)
    assert {ahead.buffer for aheads in fetching.values() for ahead in aheads} == {"x0", "c0"}
