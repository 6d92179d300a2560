"""Preparation of tables of numbers, of the domain ai.onnx.ml: scaling, choosing, replacing, encoding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import AttributeProto

from compiler.dtype import DType
from compiler.frontend.call import Array, Lowering, OperatorCall
from compiler.frontend.computes import ReduceAxes, at, elementwise, number, output_axes, reduced
from compiler.graph.ir import Compute
from compiler.index import Index, LookedUp
from compiler.scalar import Bound, Cast, Const, Expr, Guard, Load, Lookup, apply

DOMAIN = "ai.onnx.ml"


def as_float(value: Load, dtype: DType) -> Expr:
    """The element in single precision, which most outputs of the domain have."""
    return value if dtype is DType.F32 else Cast(value, DType.F32)


def _scaler(call: OperatorCall) -> None:
    """Emit (x - offset) * scale, with one of each for all or per column."""
    value, shape = call.value(0), call.shape(0)
    axes = output_axes(shape)
    body = as_float(Load(value, at(axes)), call.dtype(value))
    for op, name in (("sub", "offset"), ("mul", "scale")):
        given = call.floats(name)
        if not given:
            continue
        if not shape or len(given) not in (1, shape[-1]):
            call.reject(f"has {len(given)} numbers as {name} for an input of shape {list(shape)}")
        table = call.intermediate_constant(np.asarray(given, np.float32), name)
        body = apply(op, body, Load(table, (at(axes)[-1] if len(given) > 1 else Index(),)))
    call.emit(Compute(axes, (), None, body))


def _normaliser(call: OperatorCall) -> None:
    """Emit each row divided by its norm, as it is where that is 0."""
    norm, value, shape = call.text("norm", "MAX"), call.value(0), call.shape(0)
    if norm not in ("MAX", "L1", "L2") or len(shape) not in (1, 2):
        call.reject(f"has norm {norm[:20]!r} for an input of shape {list(shape)}")
    dtype, inner = call.dtype(value), ReduceAxes()
    outer = output_axes(shape[:-1])
    x = as_float(Load(value, (*at(outer), inner.index(shape[-1]))), dtype)
    body = apply("mul", x, x) if norm == "L2" else apply("abs", x)
    total = call.intermediate(reduced(outer, inner, "max" if norm == "MAX" else "sum", body), "norm")
    axes = output_axes(shape)
    size: Expr = Load(total, at(axes)[:-1])
    size = apply("sqrt", size) if norm == "L2" else size
    element = as_float(Load(value, at(axes)), dtype)
    empty = apply("equal", size, Const(0.0))
    call.emit(Compute(axes, (), None, apply("select", empty, element, apply("div", element, size))))


def _binarizer(call: OperatorCall) -> None:
    dtype, threshold = call.dtype(call.value(0)), call.number("threshold", 0.0)
    limit = Const(threshold, dtype) if dtype.is_float else Const(int(np.floor(threshold)), dtype)
    call.emit(
        elementwise(
            call,
            [call.value(0)],
            lambda x: apply("select", apply("less", limit, x), number(1, dtype), number(0, dtype)),
        )
    )


def _array_feature_extractor(call: OperatorCall) -> None:
    """Emit the chosen columns."""
    value, shape, which = call.value(0), call.shape(0), call.value(1)
    count = int(np.prod(call.shape(1), dtype=np.int64))
    if not shape or not count:
        call.reject(f"chooses {count} columns of shape {list(shape)}")
    rows = shape[:-1] or (1,)
    axes = output_axes((*rows, count))
    found = LookedUp(f"@{call.proto.output[0]}.column", shape[-1])
    place = Load(which, (*(Index() for _ in call.shape(1)[:-1]), at(axes)[-1]))
    outer = at(axes)[:-1] if shape[:-1] else ()
    body = Lookup(found, place, Load(value, (*outer, Index.of(found))))
    call.emit(Compute(axes, (), None, body, call.dtype(value)))


def _imputer(call: OperatorCall) -> None:
    """Emit another number, one for all or per column, where a number or NaN stands for nothing."""
    value, shape, dtype = call.value(0), call.shape(0), call.dtype(call.value(0))
    given: list[Any] = list(
        (call.floats("imputed_value_floats") if dtype.is_float else call.ints("imputed_value_int64s")) or []
    )
    if not shape or len(given) not in (1, shape[-1]):
        call.reject(f"has {len(given)} numbers for an input of shape {list(shape)}")
    axes = output_axes(shape)
    table = call.intermediate_constant(np.asarray(given, dtype.numpy), "imputed")
    new = Load(table, (at(axes)[-1] if len(given) > 1 else Index(),))
    x = Load(value, at(axes))
    if dtype.is_float:
        replaced = call.number("replaced_value_float", 0.0)
        missing = (
            apply("not", apply("equal", x, x))
            if np.isnan(replaced)
            else apply("equal", x, Const(replaced, dtype))
        )
    else:
        missing = apply("equal", x, Const(call.integer("replaced_value_int64"), dtype))
    call.emit(Compute(axes, (), None, apply("select", missing, new, x), dtype))


def _one_hot_encoder(call: OperatorCall) -> None:
    """Emit 1 for the category that an element is, 0 for the others; whole numbers only."""
    categories = call.ints("cats_int64s")
    if not categories:
        call.unsupported("categories that are text")
    value, shape, dtype = call.value(0), call.shape(0), call.dtype(call.value(0))
    if not call.integer("zeros", 1):
        call.unsupported("an error at run time for what is in no category")
    axes = output_axes((*shape, len(categories)))
    table = call.intermediate_constant(np.asarray(categories, np.int64), "categories")
    x: Expr = Load(value, at(axes)[:-1])
    x = x if dtype is DType.I64 else Cast(x, DType.I64)
    hit = apply("equal", x, Load(table, at(axes)[-1:]))
    call.emit(Compute(axes, (), None, apply("select", hit, Const(1.0), Const(0.0))))


def _feature_vectorizer(call: OperatorCall) -> None:
    """Emit the columns of all inputs side by side."""
    values = call.values()
    joined, rows = [], call.shape(0)[0] if len(call.shape(0)) > 1 else 1
    for value in values:
        shape = call.builder.shapes[value]
        if len(shape) not in (1, 2):
            call.reject(f"joins an input of shape {list(shape)}")
        axes = output_axes((rows, shape[-1]))
        load = Load(value, at(axes)[2 - len(shape) :])
        joined.append(
            (call.intermediate(Compute(axes, (), None, as_float(load, call.dtype(value))), "part"), shape[-1])
        )
    axes = output_axes((rows, sum(width for _, width in joined)))
    row, column = at(axes)
    body: Expr | None = None
    end = axes[1].size
    for part, width in reversed(joined):
        start = end - width
        element = Load(part, (row, column - start))
        body = element if body is None else Guard((Bound(column, start, end),), element, body)
        end = start
    assert body is not None
    call.emit(Compute(axes, (), None, body))


def _label_encoder(call: OperatorCall) -> None:
    """Emit the value that belongs to a key, or the default; numbers only. The last of equal keys counts."""
    keys, values, default = _labels(call)
    value = call.value(0)
    dtype, found = call.dtype(value), DType.from_numpy(values.dtype)
    if dtype is not DType.from_numpy(keys.dtype):
        call.unsupported(f"keys of {keys.dtype} for elements of {dtype.value}")
    axes, inner = output_axes(call.shape(0)), ReduceAxes()
    if not keys.size:
        call.reject("has no keys")
    step = inner.index(keys.size)
    table = call.intermediate_constant(keys, "keys")
    numbers = call.intermediate_constant(np.arange(keys.size, dtype=np.int32), "numbers")
    x, key = Load(value, at(axes)), Load(table, (step,))
    hit: Expr = apply("equal", x, key)
    if dtype.is_float:
        nan = apply("not", apply("equal", key, key))
        hit = apply("or", hit, apply("and", nan, apply("not", apply("equal", x, x))))
    body = apply("select", hit, Load(numbers, (step,)), Const(-1, DType.I32))
    which = Load(call.intermediate(reduced(axes, inner, "max", body, DType.I32), "which"), at(axes))
    labels = call.intermediate_constant(values, "values")
    name = LookedUp(f"@{labels}", keys.size)
    none = Const(float(default) if found.is_float else int(default), found)
    label = Lookup(name, which, Load(labels, (Index.of(name),)))
    call.emit(
        Compute(
            axes, (), None, apply("select", apply("less", which, Const(0, DType.I32)), none, label), found
        )
    )


def _labels(call: OperatorCall) -> tuple[Array, Array, Any]:
    found: dict[str, Array] = {}
    for part in ("keys", "values"):
        tensor = call.tensor(f"{part}_tensor")
        floats, ints = call.floats(f"{part}_floats"), call.ints(f"{part}_int64s")
        if tensor is not None:
            found[part] = tensor.reshape(-1)
        elif floats is not None:
            found[part] = np.asarray(floats, np.float32)
        elif ints is not None:
            found[part] = np.asarray(ints, np.int64)
        else:
            call.unsupported(f"{part} that are text")
    keys, values = found["keys"], found["values"]
    if keys.size != values.size:
        call.reject(f"has {keys.size} keys and {values.size} values")
    tensor = call.tensor("default_tensor")
    if tensor is not None and tensor.size == 1:
        return keys, values, tensor.reshape(-1)[0]
    if values.dtype.kind == "f":
        return keys, values, call.number("default_float", -0.0)
    has = call.attribute("default_int64", AttributeProto.INT) is not None
    return keys, values, call.integer("default_int64") if has else -1


LOWERINGS: Mapping[str, Lowering] = {
    "Scaler": _scaler,
    "Normalizer": _normaliser,
    "Binarizer": _binarizer,
    "ArrayFeatureExtractor": _array_feature_extractor,
    "Imputer": _imputer,
    "OneHotEncoder": _one_hot_encoder,
    "FeatureVectorizer": _feature_vectorizer,
    "LabelEncoder": _label_encoder,
}
