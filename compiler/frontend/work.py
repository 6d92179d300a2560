"""Work: the nodes of a model that are still to be lowered, in order.

work ::= Work(node, name, opsets, after)      a linked list: what one place has in front of it, others may share

A node may be replaced by others that compute the same (a branch, an iteration, a definition by other operators).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from onnx import AttributeProto, GraphProto, NodeProto

from compiler.frontend.check import label
from compiler.recent import Recent

OWN_DOMAIN = "luthier"
"""Of operators that only lowerings make."""

_NUMBERS = itertools.count()
_READ: Recent[int, frozenset[str]] = Recent(16)
_DEFINED: Recent[int, frozenset[str]] = Recent(16)
"""By number: what follows a segment is what the next one begins with, and a loop's segments come again."""


@dataclass(frozen=True, eq=False, slots=True)
class Work:
    """A node, and what follows it.

    Attributes:
        name: what the node is called in messages.
        operator: what its operator is called there. A node that we made has both from the one that it is a part of.
        opsets: version of each domain of operators, for this node.
        number: no other Work of this process has it.
    """

    node: NodeProto
    name: str
    operator: str
    opsets: Mapping[str, int]
    after: Work | None
    number: int = field(default_factory=lambda: next(_NUMBERS))


class Works:
    """Keeps one object of Work that is alike, so that what was done for one is found again for the other."""

    def __init__(self, first: Work | None) -> None:
        """`first` and all that follows it are kept as they are."""
        self._kept = {item.number for item in each(first)}
        self._alike: dict[tuple[object, ...], Work] = {}

    def one(self, work: Work | None) -> Work | None:
        """The object that is kept for this Work."""
        new = []
        while work is not None and work.number not in self._kept:
            new.append(work)
            work = work.after
        for item in reversed(new):
            proto = item.node.SerializeToString(deterministic=True)
            opsets = tuple(sorted(item.opsets.items()))
            key = (proto, item.name, item.operator, opsets, work.number if work else None)
            if key not in self._alike:
                self._alike[key] = (
                    item if item.after is work else replace(item, after=work, number=next(_NUMBERS))
                )
                self._kept.add(self._alike[key].number)
            work = self._alike[key]
        return work


def work_of(nodes: Sequence[NodeProto], opsets: Mapping[str, int], outer: str = "") -> Work | None:
    """Work of these nodes; `outer`: the node that they belong to."""
    prefix, after = f"{outer}/" if outer else "", None
    for place, node in reversed(list(enumerate(nodes))):
        after = Work(node, f"{prefix}{label(node, place)}", operator_name(node), opsets, after)
    return after


def instead_of(work: Work, nodes: Sequence[tuple[NodeProto, Mapping[str, int]]]) -> Work | None:
    """The nodes that the first one stands for, with their operator sets, and what follows it."""
    after = work.after
    for place, (node, opsets) in reversed(list(enumerate(nodes))):
        name, operator = f"{work.name}/{label(node, place)}", operator_name(node)
        if node.domain == OWN_DOMAIN:
            name, operator = work.name, work.operator
        after = Work(node, name, operator, opsets, after)
    return after


def operator_name(proto: NodeProto) -> str:
    """The operator, with its domain unless that is ONNX's own."""
    return f"{proto.domain}.{proto.op_type}" if proto.domain not in ("", "ai.onnx") else proto.op_type


def each(work: Work | None) -> Iterator[Work]:
    """The Work itself and all that follows."""
    while work is not None:
        yield work
        work = work.after


def read_by(work: Work | None, outputs: Iterable[str]) -> frozenset[str]:
    """The names that are still needed: what the nodes read and do not define, and `outputs`."""
    if work is None:
        return frozenset(outputs)
    found = _READ.get(
        work.number, lambda: frozenset(name for item in each(work) for name in reads(item.node))
    )
    return found.union(outputs)


def defined_by(work: Work | None) -> frozenset[str]:
    """The names that the nodes give values to."""
    if work is None:
        return frozenset()
    return _DEFINED.get(
        work.number, lambda: frozenset(name for item in each(work) for name in item.node.output)
    )


def reads(node: NodeProto) -> Iterator[str]:
    """The values that a node reads, those that its subgraphs take from around it among them."""
    yield from (name for name in node.input if name)
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield from free_names(attribute.g)


def free_names(graph: GraphProto) -> frozenset[str]:
    """The values that a subgraph reads and does not define."""
    own = {info.name for info in graph.input} | {tensor.name for tensor in graph.initializer}
    own.update(name for node in graph.node for name in node.output)
    found = {name for node in graph.node for name in reads(node)}
    found.update(output.name for output in graph.output)
    return frozenset(found - own)
