"""Images at other sizes, against the ONNX reference implementation."""

import numpy as np
import pytest
from onnx import helper

from compiler.errors import ModelError
from compiler.frontend import import_model
from compiler.graph.evaluate import evaluate_graph
from tests.compiler.frontend.cases import Case, case, floats, ints, run_case, run_one, weights
from tests.compiler.frontend.models import model

SMALL = (2, 3, 5, 4)
COORDINATES = ("half_pixel", "half_pixel_symmetric", "align_corners", "asymmetric", "pytorch_half_pixel")
CASES = [
    *(
        case("Resize", SMALL, None, floats(1, 1, 2, 1.75), mode=mode, coordinate_transformation_mode=c)
        for mode in ("nearest", "linear", "cubic")
        for c in COORDINATES
    ),
    *(
        case("Resize", SMALL, None, None, ints(2, 3, 3, 9), mode=mode, antialias=antialias)
        for mode in ("linear", "cubic")
        for antialias in (0, 1)
    ),
    *(
        case("Resize", SMALL, None, None, ints(8, 3), axes=[3, 2], mode="nearest", nearest_mode=nearest)
        for nearest in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    ),
    case("Resize", SMALL, None, floats(1, 1, 3, 2), mode="cubic", cubic_coeff_a=-0.5, exclude_outside=1),
    case("Resize", SMALL, None, None, ints(2, 3, 7, 1), mode="linear"),
    case("Resize", SMALL, None, None, ints(7, 9), axes=[2, 3], keep_aspect_ratio_policy="not_larger"),
    case("Resize", SMALL, None, None, ints(7, 9), axes=[2, 3], keep_aspect_ratio_policy="not_smaller"),
    case(
        "Resize",
        SMALL,
        floats(0, 0, -0.4, 0.2, 1, 1, 1.1, 0.9),
        None,
        ints(2, 3, 6, 3),
        mode="linear",
        coordinate_transformation_mode="tf_crop_and_resize",
        extrapolation_value=9.0,
    ),
    case("Resize", (1, 2, 7), None, floats(1, 1, 0.5), mode="nearest", opset=13),
    case("Resize", (1, 2, 100), None, floats(1, 1, 0.2), mode="linear", antialias=1),
]


@pytest.mark.parametrize("example", CASES, ids=str)
def test_resize(example: Case) -> None:
    run_case(example)


@pytest.mark.parametrize("opset", [6, 7, 9, 10])
def test_what_came_before_takes_places_from_the_corner(opset: int) -> None:
    x = weights(1, 2, 3, 4)
    if opset == 6:
        node = helper.make_node("Upsample", ["x"], ["y"], height_scale=2.0, width_scale=3.0)
    elif opset == 7:
        node = helper.make_node("Upsample", ["x"], ["y"], scales=[1.0, 1.0, 2.0, 3.0])
    else:
        node = helper.make_node("Upsample" if opset == 9 else "Resize", ["x", "scales"], ["y"])
    constants = {"scales": floats(1, 1, 2, 3)} if opset > 7 else {}
    actual = run_one(node, x, constants, 1 if opset == 6 else opset)
    np.testing.assert_array_equal(actual, x.astype(np.float64).repeat(2, 2).repeat(3, 3))


def test_whole_numbers_of_a_resized_image_are_exact() -> None:
    """A place that is an element of the input is that element, also between two that are huge."""
    x = floats(1e30, 1.0, -1e30)[None, None]
    node = helper.make_node(
        "Resize", ["x", "", "", "sizes"], ["y"], mode="linear", coordinate_transformation_mode="align_corners"
    )
    actual = run_one(node, x, {"sizes": ints(1, 1, 5)})
    np.testing.assert_array_equal(actual[0, 0, ::2], x.astype(np.float64)[0, 0])


def resized_shape(x: np.ndarray, sizes: np.ndarray, mode: str = "nearest") -> np.ndarray:
    """Of an image that is known."""
    nodes = [
        helper.make_node("Resize", ["x", "", "", "sizes"], ["resized"], mode=mode),
        helper.make_node("Shape", ["resized"], ["y"]),
    ]
    return evaluate_graph(import_model(model(nodes, {}, {"x": x, "sizes": sizes})), {})["y"]


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_no_images_become_no_images(mode: str) -> None:
    """A detector that finds nothing has none to resize."""
    for shape, sizes in (
        ((0, 3, 5, 4), (0, 3, 9, 7)),
        ((1, 3, 0, 4), (1, 3, 0, 8)),
        ((1, 3, 5, 4), (1, 3, 0, 4)),
    ):
        assert tuple(resized_shape(weights(*shape), ints(*sizes), mode)) == sizes


def test_places_between_no_elements_are_refused() -> None:
    with pytest.raises(ModelError, match="makes 4 places along axis 2"):
        resized_shape(weights(1, 3, 0, 4), ints(1, 3, 4, 4))
