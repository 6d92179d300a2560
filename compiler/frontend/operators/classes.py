"""Linear models, and what all models of the domain ai.onnx.ml do with their scores: transforms and labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from compiler.dtype import DType
from compiler.frontend.call import Lowering, OperatorCall
from compiler.frontend.computes import ReduceAxes, at, output_axes, reduced
from compiler.frontend.operators.features import as_float
from compiler.frontend.statistics import along
from compiler.graph.ir import Compute
from compiler.index import ZERO, Index, LookedUp
from compiler.scalar import Const, Expr, Load, Lookup, apply


def _linear_regressor(call: OperatorCall) -> None:
    targets = call.integer("targets", 1)
    transformed(call, _products(call, targets), call.text("post_transform", "NONE"))


def _linear_classifier(call: OperatorCall) -> None:
    """Outputs: labels and the scores of all classes."""
    labels = call.ints("classlabels_ints")
    if not labels:
        call.unsupported("labels that are text")
    scores = _products(call, len(call.floats("intercepts") or labels))
    emit_labels(call, scores, labels, call.text("post_transform", "NONE"), OneScore(0.0, complement=True))


def _products(call: OperatorCall, targets: int) -> str:
    """[rows, targets]: x times the coefficients, plus the intercepts."""
    value, shape = call.value(0), call.shape(0)
    columns = shape[-1] if shape else 1
    coefficients = np.asarray(call.floats("coefficients") or [], np.float32)
    intercepts = np.asarray(call.floats("intercepts") or np.zeros(targets), np.float32)
    if len(shape) != 2 or coefficients.size != targets * columns or intercepts.size != targets:
        call.reject(f"has {coefficients.size} coefficients for an input of shape {list(shape)}")
    weights = call.intermediate_constant(coefficients.reshape(targets, columns), "coefficients")
    added = call.intermediate_constant(intercepts, "intercepts")
    axes, inner = output_axes((shape[0], targets)), ReduceAxes()
    row, target = at(axes)
    step = inner.index(columns)
    x = value
    if call.dtype(value) is not DType.F32:
        own = output_axes(shape)
        x = call.intermediate(Compute(own, (), None, as_float(Load(value, at(own)), call.dtype(value))), "x")
    product = reduced(axes, inner, "sum", apply("mul", Load(x, (row, step)), Load(weights, (target, step))))
    total = Load(call.intermediate(product, "product"), at(axes))
    body = apply("add", total, Load(added, (target,)))
    return call.intermediate(Compute(axes, (), None, body), "scores")


def transformed(call: OperatorCall, scores: str, transform: str, output: int = 0) -> None:
    """Emit the scores after a transform."""
    axes = output_axes(call.builder.shapes[scores])
    dtype = call.dtype(scores)
    x = Load(scores, at(axes))
    if transform == "NONE":
        return call.emit(Compute(axes, (), None, x, dtype), output)
    if transform == "LOGISTIC":
        return call.emit(Compute(axes, (), None, apply("sigmoid", x), dtype), output)
    if transform != "SOFTMAX":
        call.unsupported(f"post_transform {transform[:20]!r}")
    parts = along(call, scores, [1])
    largest = parts.total("max", parts.element(), "max")
    row = at(axes)[0]
    power = apply("exp", apply("sub", x, Load(largest, (row, ZERO))))
    name = call.intermediate(Compute(axes, (), None, power, dtype), "power")
    raised = along(call, name, [1])
    total = raised.total("sum", raised.element(), "sum")
    body = apply("div", Load(name, at(axes)), Load(total, (row, ZERO)))
    return call.emit(Compute(axes, (), None, body, dtype), output)


@dataclass(frozen=True, slots=True)
class OneScore:
    """What two classes with one score, that of the second, make of it.

    Attributes:
        limit: above it the second class is chosen.
        complement: whether the score of the first is 1 - s, else -s.
    """

    limit: float
    complement: bool


def emit_labels(
    call: OperatorCall, scores: str, labels: Sequence[int], transform: str, one_score: OneScore
) -> None:
    """Emit the label of the highest score (the first of equals), and the scores of all classes."""
    rows, classes = call.builder.shapes[scores]
    if classes == 1 and len(labels) == 2:
        return _emit_two(call, scores, labels, transform, one_score)
    if classes != len(labels):
        call.reject(f"has {len(labels)} labels for {classes} classes")
    parts = along(call, scores, [1])
    largest = parts.total("max", parts.element(), "best")
    numbers = call.intermediate_constant(np.arange(classes, dtype=np.int32), "numbers")
    hit = apply("equal", parts.element(), parts.of(largest))
    step = parts.indices[1]
    first = parts.total(
        "min", apply("select", hit, Load(numbers, (step,)), Const(classes - 1, DType.I32)), "which"
    )
    table = call.intermediate_constant(np.asarray(labels, np.int64), "labels")
    found = LookedUp(f"@{first}", classes)
    axes = output_axes((rows,))
    label = Lookup(found, Load(first, (at(axes)[0], ZERO)), Load(table, (Index.of(found),)))
    call.emit(Compute(axes, (), None, label, DType.I64))
    return transformed(call, scores, transform, 1)


def _emit_two(
    call: OperatorCall, scores: str, labels: Sequence[int], transform: str, one_score: OneScore
) -> None:
    dtype = call.dtype(scores)
    axes = output_axes(call.builder.shapes[scores][:1])
    score = Load(scores, (at(axes)[0], ZERO))
    second = apply("less", Const(one_score.limit, dtype), score)
    no, yes = (Const(label, DType.I64) for label in labels)
    call.emit(Compute(axes, (), None, apply("select", second, yes, no), DType.I64))
    if transform not in ("NONE", "LOGISTIC"):
        call.unsupported(f"post_transform {transform[:20]!r} of one score")
    pair = output_axes((axes[0].size, 2))
    own = Load(scores, (at(pair)[0], ZERO))
    logistic = transform == "LOGISTIC"
    complement = one_score.complement and not logistic
    other: Expr = apply("sub", Const(1.0, dtype), own) if complement else apply("neg", own)
    numbers = Load(call.intermediate_constant(np.arange(2, dtype=np.int32), "pair"), at(pair)[1:])
    body: Expr = apply("select", apply("equal", numbers, Const(0, DType.I32)), other, own)
    if logistic:
        body = apply("sigmoid", body)
    call.emit(Compute(pair, (), None, body, dtype), 1)


LOWERINGS: Mapping[str, Lowering] = {
    "LinearRegressor": _linear_regressor,
    "LinearClassifier": _linear_classifier,
}
