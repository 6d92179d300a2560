from typing import Any

import pytest
from onnx import helper

from compiler.errors import InputError, ModelError
from compiler.frontend import import_model
from tests.compiler.frontend.models import model, relu


def add(inputs: dict[str, Any]) -> Any:
    return model([helper.make_node("Sum", list(inputs), ["y"])], inputs)


def test_open_dimensions_get_the_given_sizes() -> None:
    graph = import_model(add({"x": ["batch", 3], "z": [None, 3]}), {"x": (4, 3), "z": (1, 3)})
    assert graph.inputs["x"].sizes == (4, 3)
    assert graph.nodes[-1].compute.type.sizes == (4, 3)


def test_an_input_without_a_shape_gets_the_given_one() -> None:
    assert import_model(model([relu()], {"x": None}), {"x": (2, 5)}).inputs["x"].sizes == (2, 5)


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        (
            ["batch", 3, 224],
            "input 'x' has the open shape [batch, 3, 224]; give it sizes with --shape x=1,3,224",
        ),
        ([None, 3], "input 'x' has the open shape [?, 3]; give it sizes with --shape x=1,3"),
        # As some exporters write what is open.
        ([-1, 3], "input 'x' has the open shape [?, 3]; give it sizes with --shape x=1,3"),
        (None, "input 'x' has no shape; give it sizes with --shape x="),
    ],
)
def test_open_shapes_say_which_option_to_give(shape: Any, text: str) -> None:
    with pytest.raises(ModelError) as caught:
        import_model(model([relu()], {"x": shape}))
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("shapes", "text"),
    [
        ({"z": (2, 3)}, "has no input 'z'; give the shape of one of its inputs: 'x'"),
        ({"x": (2, 4)}, "input 'x' has shape [batch, 3], so [2, 4] does not fit"),
        ({"x": (2,)}, "so [2] does not fit"),
        ({"x": (0, 3)}, "give sizes of at least 1"),
        ({"x": (-1, 3)}, "give sizes of at least 1"),
        ({"x": ("many", 3)}, "give whole numbers"),
        ({"x": 3}, "give whole numbers"),
        ({"x": (1,) * 40}, "give sizes of at least 1"),
    ],
)
def test_shapes_that_do_not_fit(shapes: Any, text: str) -> None:
    with pytest.raises(InputError) as caught:
        import_model(model([relu()], {"x": ["batch", 3]}), shapes)
    assert text in str(caught.value)


def test_too_many_elements() -> None:
    with pytest.raises(ModelError, match="more than 2147483647 elements"):
        import_model(model([relu()], {"x": ["batch", 3]}), {"x": (2**40, 3)})
