"""Elements at places that are computed, against the ONNX reference implementation."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from luthier.backend import prepare
from tests.compiler.frontend.cases import Case, case, floats, ints, run_case, run_given, weights
from tests.compiler.frontend.models import model

X = weights(2, 3, 4, 5)
PLACES = np.random.default_rng(0).uniform(-1.6, 1.6, (2, 3, 6, 2)).astype(np.float32)


@pytest.mark.parametrize("aligned", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_grid_sample(mode: str, padding: str, aligned: int) -> None:
    run_given("GridSample", [X, PLACES], mode=mode, padding_mode=padding, align_corners=aligned)


def test_grid_sample_of_a_volume() -> None:
    places = np.random.default_rng(1).uniform(-1.2, 1.2, (1, 2, 3, 2, 3)).astype(np.float32)
    run_given("GridSample", [weights(1, 2, 4, 3, 5), places])


def test_places_far_away_and_no_places_are_outside() -> None:
    """Neither reads outside of the image; NaN is not defined by ONNX."""
    node = helper.make_node("GridSample", ["x", "grid"], ["y"])
    proto = model([node], {"x": [1, 1, 3, 3], "grid": [1, 1, 3, 2]})
    places = np.array([[1e30, 0], [0, -np.inf], [np.nan, 0]], np.float32)[None, None]
    (actual,) = prepare(proto).run([np.full((1, 1, 3, 3), np.inf, np.float32), places])
    np.testing.assert_array_equal(actual[0, 0, 0, :2], 0)


REGIONS = floats(0, 0, 3, 3, 1, 0.5, 4, 2, 2, 2, 2.5, 9).reshape(3, 4)
ROI_CASES = [
    case("RoiAlign", (2, 3, 4, 5), REGIONS, ints(0, 1, 0), output_height=2, output_width=3, sampling_ratio=2),
    case("RoiAlign", (2, 3, 4, 5), REGIONS, ints(0, 1, 0), output_height=2, output_width=3),
    case("RoiAlign", (2, 3, 4, 5), REGIONS, ints(1, 1, 0), output_height=2, output_width=2, mode="max"),
    case(
        "RoiAlign",
        (2, 3, 4, 5),
        REGIONS,
        ints(1, 1, 0),
        coordinate_transformation_mode="output_half_pixel",
        spatial_scale=0.5,
    ),
    case("DeformConv", (1, 4, 5, 6), weights(2, 2, 3, 3), (1, 36, 3, 4), group=2, offset_group=2, opset=19),
    case(
        "DeformConv",
        (1, 2, 5, 6),
        weights(3, 2, 2, 2),
        (1, 8, 3, 4),
        weights(3),
        (1, 4, 3, 4),
        opset=19,
        strides=[2, 2],
        pads=[1, 1, 0, 1],
    ),
]


@pytest.mark.parametrize("example", ROI_CASES, ids=str)
def test_operator(example: Case) -> None:
    run_case(example)


@pytest.mark.parametrize("order", [0, 1])
def test_places_of_the_largest(order: int) -> None:
    x = np.random.default_rng(0).permutation(2 * 3 * 4 * 5).astype(np.float32).reshape(2, 3, 4, 5)
    node = helper.make_node(
        "MaxPool", ["x"], ["y", "i"], kernel_shape=[2, 3], pads=[1, 1, 0, 1], storage_order=order
    )
    values, places = prepare(model([node], {"x": [2, 3, 4, 5]}, outputs=("y", "i"))).run([x])
    stored = x.swapaxes(2, 3) if order else x
    np.testing.assert_array_equal(stored.reshape(-1)[places], values)


def test_largest_whole_number() -> None:
    x = np.random.default_rng(0).integers(0, 255, (1, 2, 5, 5)).astype(np.uint8)
    node = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    proto = model([node], {"x": [1, 2, 5, 5]})
    (wanted,) = prepare(proto).run([x.astype(np.float32)])
    for info in (proto.graph.input[0], proto.graph.output[0]):
        info.type.tensor_type.elem_type = TensorProto.UINT8
    (actual,) = prepare(proto).run([x])
    assert actual.dtype == np.uint8
    np.testing.assert_array_equal(actual, wanted)


def test_unpooled_elements_are_where_they_were() -> None:
    x = weights(1, 2, 4, 6)
    nodes = [
        helper.make_node("MaxPool", ["x"], ["p", "i"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("MaxUnpool", ["p", "i"], ["y"], kernel_shape=[2, 2], strides=[2, 2]),
    ]
    (actual,) = prepare(model(nodes, {"x": [1, 2, 4, 6]})).run([x])
    assert ((actual == x) | (actual == 0)).all()
    assert np.count_nonzero(actual) == 12
