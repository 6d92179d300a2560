"""Cases of one node, and their comparison with the ONNX reference implementation."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import helper
from onnx.reference import ReferenceEvaluator

from compiler.frontend import import_model
from compiler.graph.evaluate import evaluate_graph
from compiler.graph.pipeline import optimise
from compiler.graph.verify import verify_graph
from tests.compiler.frontend.models import OPSET, model

POSITIVE = ("Sqrt", "Reciprocal", "Div", "Log", "Pow", "ReduceLogSum")

Shape = tuple[int, ...]


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def scalar(value: float) -> np.ndarray:
    return np.array(value, np.float32)


def weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


@dataclass(frozen=True)
class Case:
    """One node: shapes are inputs, arrays constants, None a missing input."""

    op: str
    operands: tuple[Shape | np.ndarray | None, ...] = ((2, 3, 4),)
    opset: int = OPSET
    outputs: int = 1
    attributes: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        texts = [
            str(list(o.shape if isinstance(o, np.ndarray) else o)) for o in self.operands if o is not None
        ]
        options = ",".join(f"{k}={v}" for k, v in self.attributes.items() if not hasattr(v, "dims"))
        return f"{self.op}-{self.opset}({','.join(texts)};{options})".replace(" ", "")


def case(
    op: str, *operands: Shape | np.ndarray | None, opset: int = OPSET, outputs: int = 1, **attributes: Any
) -> Case:
    return Case(op, operands or ((2, 3, 4),), opset, outputs, attributes)


IMAGE: Shape = (2, 4, 7, 6)
STATISTICS = (weights(4), floats(1, -2, 0.5, 3), floats(0.1, 0, -1, 2), floats(1, 0.5, 2, 4))


def compare(proto: Any, inputs: dict[str, np.ndarray]) -> None:
    expected = ReferenceEvaluator(proto).run(None, inputs)
    imported = import_model(proto)
    verify_graph(imported)
    for graph in (imported, optimise(imported)):
        actual = evaluate_graph(graph, inputs)
        for output, wanted in zip(graph.outputs, expected, strict=True):
            assert actual[output].shape == wanted.shape
            np.testing.assert_allclose(actual[output], wanted, rtol=2e-5, atol=2e-5)


def run_case(example: Case) -> None:
    """Compare one node with the reference implementation; operands of logarithms and quotients are positive."""
    random = np.random.default_rng(0)
    inputs, constants, names = {}, {}, []
    for place, operand in enumerate(example.operands):
        name = "" if operand is None else f"x{place}"
        names.append(name)
        if isinstance(operand, np.ndarray):
            constants[name] = operand
        elif operand is not None:
            positive = example.op in POSITIVE
            drawn = random.standard_normal(operand).astype(np.float32)
            inputs[name] = np.abs(drawn) + 0.5 if positive else drawn
    outputs = [f"y{i}" for i in range(example.outputs)]
    node = helper.make_node(example.op, names, outputs, **example.attributes)
    shapes = {n: list(a.shape) for n, a in inputs.items()}
    compare(model([node], shapes, constants, outputs, example.opset), inputs)


def run_one(node: Any, x: np.ndarray, constants: dict[str, np.ndarray], opset: int = OPSET) -> np.ndarray:
    graph = optimise(import_model(model([node], {"x": list(x.shape)}, constants, opset=opset)))
    return evaluate_graph(graph, {"x": x})["y"]


def run_given(
    op: str, arrays: list[np.ndarray | None], opset: int = OPSET, outputs: int = 1, **attributes: Any
) -> None:
    """Compare one node, whose inputs are all given at run time, with the reference implementation."""
    names = ["" if array is None else f"x{place}" for place, array in enumerate(arrays)]
    inputs = {name: a for name, a in zip(names, arrays, strict=True) if a is not None}
    results = [f"y{i}" for i in range(outputs)]
    proto = model([helper.make_node(op, names, results, **attributes)], {}, {}, results, opset)
    for name, array in inputs.items():
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        proto.graph.input.append(helper.make_tensor_value_info(name, kind, array.shape))
    compare(proto, inputs)
