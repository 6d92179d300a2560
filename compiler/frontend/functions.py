"""Operators that are defined by others, most by ONNX itself: the nodes of such a definition, for one call of it.

    GreaterOrEqual(a, b) -> c   becomes   t = Greater(a, b); u = Equal(a, b); c = Or(t, u)

Some definitions depend on the types, shapes and attributes of the call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, TypeProto, defs, helper

from compiler.frontend.builder import GraphBuilder
from compiler.frontend.contrib import contributed

Names = Mapping[str, str]


@dataclass(frozen=True)
class FunctionBody:
    """The nodes that define a call's outputs, and the operator sets that they are of."""

    nodes: tuple[NodeProto, ...]
    opsets: Mapping[str, int]


def function_body(node: NodeProto, domain: str, opset: int, builder: GraphBuilder) -> FunctionBody | None:
    """What the node is defined as; None where there is no definition of it."""
    given = contributed(node, domain, lambda name: builder.shapes[builder.resolve(name)])
    if given is not None:
        return _body(node, given, [], builder)
    try:
        schema: Any = defs.get_schema(  # its stub has none of the fields that are read
            node.op_type, opset, domain
        )
    except defs.SchemaError:
        return None
    function = _definition(schema, node, opset, builder)
    return None if function is None else _body(node, function, _defaults(schema), builder)


def _body(
    node: NodeProto, function: FunctionProto, defaults: Iterable[AttributeProto], builder: GraphBuilder
) -> FunctionBody:
    names = dict(zip(function.input, (*node.input, *[""] * len(function.input)), strict=False))
    names |= {inner: outer for inner, outer in zip(function.output, node.output, strict=False) if outer}
    attributes = {a.name: a for a in (*defaults, *function.attribute_proto, *node.attribute)}
    prefix = next(name for name in node.output if name)
    rename = _Renaming(builder, prefix, attributes)
    nodes = tuple(rename.nodes(function.node, names))
    return FunctionBody(nodes, {o.domain: o.version for o in function.opset_import})


def nodes_of(function: FunctionProto, names: Names, builder: GraphBuilder) -> list[NodeProto]:
    """The nodes of a function; `names`: of its inputs and outputs, all others are fresh."""
    prefix = names[function.output[0]]
    return _Renaming(builder, prefix, {}).nodes(function.node, names)


def _definition(schema: Any, node: NodeProto, opset: int, builder: GraphBuilder) -> FunctionProto | None:
    """The newest definition by operators of no later than the model's set, else the oldest."""
    found: bytes = b""
    if schema.has_function:
        found = schema.get_function_with_opset_version(_version(schema.function_opset_versions, opset))
    elif schema.has_context_dependent_function:
        found = schema.get_context_dependent_function_with_opset_version(
            _version(schema.context_dependent_function_opset_versions, opset),
            node.SerializeToString(),
            [_type(builder, name).SerializeToString() for name in node.input],
        )
    if not found:
        return None
    function = FunctionProto()
    function.ParseFromString(found)
    return function


def _version(versions: Iterable[int], opset: int) -> int:
    known = sorted(versions)
    return max((v for v in known if v <= opset), default=known[0])


def _type(builder: GraphBuilder, name: str) -> TypeProto:
    if not name:
        return TypeProto()
    value = builder.resolve(name)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(builder.dtype(value)))
    return helper.make_tensor_type_proto(kind, builder.shapes[value])


def _defaults(schema: defs.OpSchema) -> list[AttributeProto]:
    return [a.default_value for a in schema.attributes.values() if a.default_value.name]


@dataclass
class _Renaming:
    """Gives the values of a definition names of their own, and its attributes the values of the call."""

    builder: GraphBuilder
    prefix: str
    attributes: Mapping[str, AttributeProto]

    def nodes(self, nodes: Iterable[NodeProto], names: Names) -> list[NodeProto]:
        """Copies; `names`: of the values that they may read."""
        known = dict(names)
        return [self._node(node, known) for node in nodes]

    def _fresh(self, name: str) -> str:
        return self.builder.reserve(f"{self.prefix}.{name}")

    def _node(self, node: NodeProto, known: dict[str, str]) -> NodeProto:
        new = NodeProto()
        new.CopyFrom(node)
        new.input[:] = [known.get(name, name) for name in node.input]
        del new.attribute[:]
        for attribute in node.attribute:
            given = self._attribute(attribute, known)
            if given is not None:
                new.attribute.append(given)
        for name in node.output:
            if name and name not in known:
                known[name] = self._fresh(name)
        new.output[:] = [known[name] if name else "" for name in node.output]
        return new

    def _attribute(self, attribute: AttributeProto, known: Names) -> AttributeProto | None:
        """The attribute; that of the call where it refers to one, which may not be given."""
        new = AttributeProto()
        if attribute.ref_attr_name:
            if attribute.ref_attr_name not in self.attributes:
                return None
            new.CopyFrom(self.attributes[attribute.ref_attr_name])
            new.name = attribute.name
            return new
        new.CopyFrom(attribute)
        if attribute.type == AttributeProto.GRAPH:
            new.g.CopyFrom(self._graph(attribute.g, known))
        return new

    def _graph(self, graph: GraphProto, known: Names) -> GraphProto:
        new = GraphProto()
        new.CopyFrom(graph)
        own = dict(known)
        for info in (*new.input, *new.initializer):
            new_name = self._fresh(info.name)
            own[info.name] = new_name
            info.name = new_name
        del new.node[:]
        for node in graph.node:
            new.node.append(self._node(node, own))
        for output in new.output:
            output.name = own.get(output.name, output.name)
        return new
