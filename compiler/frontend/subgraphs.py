"""Subgraphs of a node (branches, bodies of loops) as nodes of the graph around it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from onnx import AttributeProto, GraphProto, NodeProto, helper

Names = Mapping[str, str]


def inlined(
    graph: GraphProto, given: Sequence[str], fresh: Callable[[str], str]
) -> tuple[list[NodeProto], list[str]]:
    """Copies of the nodes, under names of their own, and the names of the outputs.

    Args:
        graph: not changed.
        given: the outer value for each of its inputs.
        fresh: a new name from an old one.
    """
    names = {info.name: value for info, value in zip(graph.input, given, strict=False)}
    nodes = []
    for tensor in graph.initializer:
        if tensor.name not in names:
            names[tensor.name] = fresh(tensor.name)
            nodes.append(helper.make_node("Constant", [], [names[tensor.name]], value=tensor))
    names |= {name: fresh(name) for node in graph.node for name in node.output if name}
    nodes += [_renamed(node, names) for node in graph.node]
    return nodes, [names.get(output.name, output.name) for output in graph.output]


def _renamed(node: NodeProto, names: Names) -> NodeProto:
    new = NodeProto()
    new.CopyFrom(node)
    new.input[:] = _mapped(node.input, names)
    new.output[:] = _mapped(node.output, names)
    for attribute in new.attribute:
        if attribute.type == AttributeProto.GRAPH:
            _rename_free(attribute.g, names)
    return new


def _rename_free(graph: GraphProto, names: Names) -> None:
    """Rename what a subgraph takes from around it, in place; what it defines itself hides outer names."""
    own = {info.name for info in graph.input} | {tensor.name for tensor in graph.initializer}
    own.update(name for node in graph.node for name in node.output)
    outer = {old: new for old, new in names.items() if old not in own}
    for node in graph.node:
        node.input[:] = _mapped(node.input, outer)
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                _rename_free(attribute.g, outer)
    for output in graph.output:
        output.name = outer.get(output.name, output.name)


def _mapped(found: Iterable[str], names: Names) -> list[str]:
    return [names.get(name, name) for name in found]
