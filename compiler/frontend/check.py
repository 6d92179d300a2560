"""Checks a parsed model before anything is built from it: versions, sizes, names, order; then onnx.checker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx

from compiler.errors import ModelError, UnsupportedModel
from compiler.frontend.contrib import DOMAIN, is_misplaced
from compiler.frontend.limits import MAX_INITIALISERS, MAX_NODES
from compiler.frontend.tensors import has_data

OLDEST_OPSET = 1
OLDEST_IR = 3
"""Models name their operator sets since then."""
_SMALL_BYTES = 1024
"""Initialisers up to this size are shown to onnx.checker with their data."""


def check_model(model: onnx.ModelProto) -> None:
    """Raises ModelError with one sentence about the first thing that is wrong."""
    _check_versions(model)
    _check_sizes(model.graph)
    _check_names(model.graph)
    _check_order(model.graph)
    _check_with_onnx(model)


def opsets(model: onnx.ModelProto) -> Mapping[str, int]:
    """Version of each operator domain; the domain of ONNX itself is ""."""
    return {"" if o.domain == "ai.onnx" else o.domain: o.version for o in model.opset_import}


def label(node: onnx.NodeProto, position: int) -> str:
    """What a node is called in messages: its own name, or its operator and place."""
    return node.name or f"{node.op_type}_{position}"


def _check_versions(model: onnx.ModelProto) -> None:
    newest_ir, newest_opset = int(onnx.IR_VERSION), onnx.defs.onnx_opset_version()
    if not OLDEST_IR <= model.ir_version <= newest_ir:
        msg = f"ONNX IR version {model.ir_version} is not supported; export with one of {OLDEST_IR} to {newest_ir}"
        raise UnsupportedModel(msg)
    versions = opsets(model)
    if not versions:
        msg = "the model imports no ONNX operator set; export it with an opset_import for the domain ai.onnx"
        raise ModelError(msg)
    version = versions.get("")  # a model may use operators of other domains only
    if version is not None and not OLDEST_OPSET <= version <= newest_opset:
        msg = f"opset {version} is not supported; export with one of {OLDEST_OPSET} to {newest_opset}"
        raise UnsupportedModel(msg)


def _check_sizes(graph: onnx.GraphProto) -> None:
    for what, count, limit in (
        ("nodes", len(graph.node), MAX_NODES),
        ("initialisers", len(graph.initializer), MAX_INITIALISERS),
    ):
        if count > limit:
            msg = f"the model has {count} {what}, the limit is {limit}; use a smaller model"
            raise ModelError(msg)
    if not graph.output:
        msg = "the model has no outputs; name at least one output when exporting it"
        raise ModelError(msg)
    if graph.sparse_initializer:
        msg = "the model has sparse initialisers, which Luthier does not support; export it with dense ones"
        raise UnsupportedModel(msg)


def _check_names(graph: onnx.GraphProto) -> None:
    """Each value is defined once; an initialiser may also be declared as an input (its default)."""
    groups = (
        [i.name for i in graph.input],
        [t.name for t in graph.initializer],
        [o.name for o in graph.output],
    )
    for names in groups:
        _check_distinct(names)
    sources = {*groups[0], *groups[1]}
    _check_distinct([*sources, *(o for node in graph.node for o in node.output if o)])


def _check_distinct(names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if not name:
            msg = "an input, initialiser or output of the model has no name; name all of them"
            raise ModelError(msg)
        if name in seen:
            msg = f"the value {name!r} is defined twice; give every value a name of its own"
            raise ModelError(msg)
        seen.add(name)


def _check_order(graph: onnx.GraphProto) -> None:
    """Every value is defined before it is read; nodes are in order where there is one."""
    known = {*(i.name for i in graph.input), *(t.name for t in graph.initializer)}
    producer = {o: place for place, node in enumerate(graph.node) for o in node.output if o}
    for place, node in enumerate(graph.node):
        for name in _reads(node):
            if name in known:
                continue
            if name not in producer:
                msg = f"node {label(node, place)!r} reads {name!r}, which nothing defines; export the model again"
                raise ModelError(msg)
            if _depends_on(graph, producer, producer[name], place):
                what = f"node {label(node, place)!r}"
                msg = f"{what} depends on its own output through {name!r}; remove that cycle from the model"
                raise ModelError(msg)
        known.update(o for o in node.output if o)
    for output in graph.output:
        if output.name not in known:
            msg = f"output {output.name!r} of the model is defined by no node; export the model again"
            raise ModelError(msg)


def _depends_on(graph: onnx.GraphProto, producer: Mapping[str, int], start: int, target: int) -> bool:
    seen, stack = {start}, [start]
    while stack:
        place = stack.pop()
        if place == target:
            return True
        for name in _reads(graph.node[place]):
            before = producer.get(name)
            if before is not None and before not in seen:
                seen.add(before)
                stack.append(before)
    return False


def _reads(node: onnx.NodeProto) -> Iterator[str]:
    return (name for name in node.input if name)


def _check_with_onnx(model: onnx.ModelProto) -> None:
    try:
        onnx.checker.check_model(_without_large_data(model))
    except (onnx.checker.ValidationError, ValueError, TypeError, RuntimeError) as error:
        reason = " ".join(str(error).strip().splitlines()[0].split())[:300].rstrip(".")
        msg = f"the model is not valid ONNX ({reason}); export it again"
        raise ModelError(msg) from error


def _without_large_data(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model as the checker needs it: large initialisers are inputs of the same type.

    Copying gigabytes to check a few nodes would double the memory that a model needs.
    """
    light = onnx.ModelProto(ir_version=model.ir_version)
    light.opset_import.extend(model.opset_import)
    light.functions.extend(model.functions)
    light.graph.name = model.graph.name or "graph"
    light.graph.node.extend(model.graph.node)
    _at_home(light)
    light.graph.input.extend(map(_with_shape, model.graph.input))
    light.graph.output.extend(map(_with_shape, model.graph.output))
    declared = {i.name for i in model.graph.input}
    for tensor in model.graph.initializer:
        if has_data(tensor) and tensor.ByteSize() < _SMALL_BYTES:
            light.graph.initializer.append(tensor)
        elif tensor.name not in declared:
            light.graph.input.append(
                onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
            )
    return light


def _at_home(light: onnx.ModelProto) -> None:
    """Operators that the checker looks for in vain where they stand are named after their own domain."""
    misplaced = [node for node in light.graph.node if is_misplaced(node)]
    for node in misplaced:
        node.domain = DOMAIN
    if misplaced and DOMAIN not in opsets(light):
        light.opset_import.append(onnx.helper.make_opsetid(DOMAIN, 1))


def _with_shape(info: onnx.ValueInfoProto) -> onnx.ValueInfoProto:
    """The checker wants a shape; a tensor without one is fine here, its shape is asked for or computed."""
    if info.type.WhichOneof("value") not in (None, "tensor_type") or info.type.tensor_type.HasField("shape"):
        return info
    kind = info.type.tensor_type.elem_type or onnx.TensorProto.FLOAT
    return onnx.helper.make_tensor_value_info(info.name, kind, [])
