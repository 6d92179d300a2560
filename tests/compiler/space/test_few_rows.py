"""Products whose constants come from far.

Few rows stand in one tile, so that each constant is read once, for all of them. For some more rows tiles are narrow: a
panel of constants stays in the first cache while the next one arrives.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from compiler.evaluate import reference_outputs
from compiler.space.rules import build_space
from compiler.target import PRESETS, native_target
from compiler.workload.ir import Workload
from tests.compiler.execute import native_outputs, stored_error
from tests.compiler.integers import integer_matmul
from tests.compiler.workloads import convolution, matmul, padded_convolution, random_operands

V4 = replace(PRESETS["x86-64-v4"], l2_bytes=1 << 20)


@pytest.mark.parametrize(
    ("rows", "n", "k", "whole"),
    [
        pytest.param(8, 768, 1024, True, id="eight"),
        pytest.param(14, 512, 1024, True, id="as many as registers hold"),
        pytest.param(10, 400, 256, False, id="constants that stay in the second cache"),
        pytest.param(15, 512, 1024, False, id="more than a tile has"),
        pytest.param(20, 512, 1024, False, id="many"),
    ],
)
def test_a_tile_has_all_rows(rows: int, n: int, k: int, *, whole: bool) -> None:
    space = build_space(matmul(rows, n, k), V4, 1)
    assert (space.values(space.default)["rows"] == rows) is whole


@pytest.mark.parametrize(
    ("rows", "n", "k", "unroll"),
    [
        pytest.param(16, 768, 1024, 2, id="two tiles: every second panel comes from far"),
        pytest.param(16, 768, 1023, 3, id="of sums that three divide"),
        pytest.param(32, 768, 1024, 4, id="four tiles"),
        pytest.param(16, 256, 256, 4, id="constants that stay in the second cache"),
    ],
)
def test_little_is_unrolled_where_constants_keep_coming_from_far(
    rows: int, n: int, k: int, unroll: int
) -> None:
    space = build_space(matmul(rows, n, k), V4, 1)
    assert space.values(space.default)["unroll"] == unroll


@pytest.mark.parametrize(
    ("size", "rows", "vectors"),
    [
        pytest.param(12, 5, 1, id="nine, in two tiles of one vector"),
        pytest.param(8, 4, 4, id="four, in one tile of four vectors"),
    ],
)
def test_two_tiles_read_what_comes_from_afar_on_one_pipe(size: int, rows: int, vectors: int) -> None:
    """Winograd's algorithm makes 36 products of as many rows as there are tiles of 4 x 4 outputs."""
    target = replace(V4, cpu="znver4")
    space = build_space(padded_convolution(size, 256, 256, 3), target, 1)
    starts = [space.values(start) for start in (space.default, *space.starts)]
    values = next(values for values in starts if values["algorithm"] == "winograd4")
    assert (values["rows"], values["vectors"]) == (rows, vectors)


@pytest.mark.parametrize(
    ("rows", "height"),
    [
        pytest.param(16, 8, id="two tiles of what is best"),
        pytest.param(25, 9, id="no tile of one row is left"),
        pytest.param(28, 7, id="no row is left"),
        pytest.param(49, 7, id="many tiles without a rest"),
        pytest.param(64, 8, id="the most rows"),
    ],
)
def test_tiles_of_some_rows_are_narrow(rows: int, height: int) -> None:
    space = build_space(matmul(rows, 512, 1024), V4, 1)
    values = space.values(space.default)
    assert (values["rows"], values["vectors"]) == (height, 2)


@pytest.mark.parametrize(
    "workload",
    [
        pytest.param(matmul(65, 512, 1024), id="more rows: each panel would read all of them again"),
        pytest.param(matmul(25, 400, 256), id="constants that stay in the second cache"),
        pytest.param(convolution(26, 512, 512, 3), id="constants that serve many lines of an image"),
    ],
)
def test_other_tiles_are_wider(workload: Workload) -> None:
    space = build_space(workload, V4, 1)
    starts = [space.values(start) for start in (space.default, *space.starts)]
    direct = next(values for values in starts if values.get("algorithm", "direct") == "direct")
    assert direct["vectors"] > 2


@pytest.mark.parametrize("rows", [2, 7, 12, 15, 25, 49])
def test_results_stay_the_same(rows: int) -> None:
    target = replace(native_target(), l2_bytes=64 << 10)
    workload = matmul(rows, 72, 500)
    space = build_space(workload, target, 1)
    operands = random_operands(workload)
    got = native_outputs(workload, space.schedule(space.default), operands, target=target)
    assert stored_error(workload, got, reference_outputs(workload, operands)) < 1e-5


@pytest.mark.parametrize(("depth", "tile"), [(2048, (5, 2)), (96, (2, 5))])
def test_constants_of_bytes_serve_several_rows_where_they_come_from_far(
    depth: int, tile: tuple[int, int]
) -> None:
    """A tile of two rows and five vectors reads its panel for two rows alone, each time from the second cache."""
    space = build_space(integer_matmul(14, 640, depth), PRESETS["x86-64-v3"], 1)
    values = space.values(space.default)
    assert values["instruction"] == "vpmaddwd.256"
    assert (values["rows"], values["vectors"]) == tile
