"""Nudged images: last bits of what kernels round, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from compiler.packing import Parts, Shortened, Transform
from compiler.pipeline import compile_image, load_graph, lower
from compiler.runtime import nudged as module
from compiler.runtime.image import Image
from compiler.runtime.nudged import nudged
from compiler.schedule.source import NoSource
from compiler.target import PRESETS, Target
from compiler.three_bytes import lengthen
from tests.compiler.frontend.models import model
from tests.compiler.schedule.test_matrices import WITH_MATRICES

V4 = PRESETS["x86-64-v4"]


def product(rows: int, length: int, columns: int, target: Target, budget: float = 2e-5) -> Image:
    weights = np.random.default_rng(0).standard_normal((length, columns)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["t"]), helper.make_node("Add", ["t", "b"], ["y"])]
    proto = model(nodes, {"x": (rows, length)}, {"w": weights, "b": weights[0]})
    return compile_image(lower(load_graph(proto.SerializeToString())), target, 1, NoSource(budget))


def convolution(budget: float = 2e-5) -> Image:
    weights = np.random.default_rng(0).standard_normal((64, 64, 3, 3)).astype(np.float32)
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])]
    proto = model(nodes, {"x": (1, 64, 28, 28)}, {"w": weights})
    return compile_image(lower(load_graph(proto.SerializeToString())), V4, 1, NoSource(budget))


def changed(image: Image, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The one constant that is another, before and after."""
    other = nudged(image, seed)
    assert other is not None
    pairs = [(a, b) for a, b in zip(image.constants, other.constants, strict=True) if a is not b]
    assert len(pairs) == 1
    return pairs[0]


def transforms(image: Image) -> set[type]:
    params = [p for kernel in image.kernels.values() for p in kernel.params]
    return {type(p.packing.transform) for p in params if p.packing is not None} - {type(None)}


def test_of_parts_the_last_is_turned() -> None:
    image = product(64, 128, 96, WITH_MATRICES)
    assert transforms(image) == {Parts}
    before, after = changed(image)
    turned = before.view(np.uint16) ^ after.view(np.uint16)
    assert set(np.unique(turned)) == {0, 1}
    # Half of the last parts, which are half of all: the larger parts stay.
    assert np.mean(turned) == pytest.approx(0.25, abs=0.02)
    largest = np.abs(before.astype(np.float32)) > 0.5
    assert largest.any()
    assert not turned[largest].any()


def test_of_three_bytes_the_last_bit_is_turned() -> None:
    image = product(1, 1024, 2048, V4)
    assert transforms(image) == {Shortened}
    before, after = (lengthen(a).astype(np.float64) for a in changed(image))
    off = np.abs(after / before - 1)
    assert np.mean(off > 0) == pytest.approx(0.5, abs=0.02)
    assert off.max() < 2.0**-14


def test_of_transformed_tiles_a_bit_as_large_as_what_they_lose_is_turned() -> None:
    image = convolution()
    assert transforms(image) == {Transform}
    before, after = (a.astype(np.float64) for a in changed(image))
    off = np.abs(after - before)
    assert np.mean(off > 0) == pytest.approx(0.5, abs=0.02)
    assert np.all(off <= 2.0**-18 * np.abs(before))


def test_a_seed_is_a_nudge() -> None:
    image = product(64, 128, 96, WITH_MATRICES)
    (_, one), (_, same), (_, other) = (changed(image, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.view(np.uint16), same.view(np.uint16))
    assert not np.array_equal(one.view(np.uint16), other.view(np.uint16))


@pytest.mark.parametrize(
    "image", [product(64, 128, 96, WITH_MATRICES, 1e-6), convolution(1e-6)], ids=["product", "convolution"]
)
def test_what_rounds_as_singles_do_has_nothing_to_nudge(image: Image) -> None:
    assert nudged(image) is None


def test_no_more_than_so_many_bytes_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    image = product(64, 128, 96, WITH_MATRICES)
    size = max(a.nbytes for a in image.constants)
    monkeypatch.setattr(module, "MOST_BYTES", size)
    assert nudged(image) is not None
    monkeypatch.setattr(module, "MOST_BYTES", size - 1)
    assert nudged(image) is None
