"""Import: a checked model becomes a Graph, node by node."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import onnx
import onnx.inliner

from compiler.errors import ModelError, NotStatic
from compiler.frontend.builder import NOTHING_OPEN, GraphBuilder, OpenValues
from compiler.frontend.check import check_model, opsets
from compiler.frontend.input_shapes import input_shapes, input_types
from compiler.frontend.limits import MAX_NODES, declared_size
from compiler.frontend.lower import Lowered
from compiler.frontend.read import Source, read_source
from compiler.frontend.seeded import with_seed
from compiler.frontend.tensors import TensorReader
from compiler.frontend.work import work_of
from compiler.graph.ir import Graph

Shapes = Mapping[str, tuple[int, ...]]


def import_model(
    model: str | Path | bytes | onnx.ModelProto,
    shapes: Shapes | None = None,
) -> Graph:
    """Read, check and decompose a model.

    Args:
        model: not changed.
        shapes: shape of each input whose own shape is not fixed.

    Raises:
        ModelError: the model cannot be read or is not valid.
        UnsupportedOperator: it is valid, and Luthier has no lowering for one of its nodes.
        InputError: `shapes` does not fit the model.
    """
    return import_source(read_source(model), shapes, NOTHING_OPEN)[0]


def import_source(
    source: Source, shapes: Shapes | None, open_values: OpenValues
) -> tuple[Graph, GraphBuilder]:
    """The Graph, and the builder that knows all values of the model; see `import_model`."""
    check_model(source.model)
    proto = prepared(source.model)
    builder = GraphBuilder(reserved=_names(proto.graph), open_values=open_values)
    tensors = TensorReader(source.folder, source.data)
    for tensor in proto.graph.initializer:
        builder.add_constant(tensor.name, tensors.initialiser(tensor))
    types = input_types(proto.graph)
    for name, shape in input_shapes(proto.graph, shapes or {}).items():
        if 0 in shape:
            msg = f"input {name!r} has shape {list(shape)}"
            raise NotStatic(msg)
        builder.add_input(name, shape, types[name])
    Lowered(work_of(proto.graph.node, opsets(proto)), builder, tensors).run()
    outputs = [output.name for output in proto.graph.output]
    graph = builder.graph(outputs, source.name)
    _check_outputs(proto.graph, graph)
    return graph, builder


def prepared(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without functions of its own, and with a seed where it draws; raises ModelError."""
    if not model.functions:
        return with_seed(model)
    try:
        inlined: onnx.ModelProto = onnx.inliner.inline_local_functions(model)
    except Exception as error:  # the inliner documents no error types
        msg = "the functions of the model cannot be inlined; export it without model-local functions"
        raise ModelError(msg) from error
    if len(inlined.graph.node) > MAX_NODES:
        msg = f"the functions of the model expand to more than {MAX_NODES} nodes; use a smaller model"
        raise ModelError(msg)
    return with_seed(inlined)


def _names(graph: onnx.GraphProto) -> frozenset[str]:
    return frozenset(
        (
            *(i.name for i in graph.input),
            *(t.name for t in graph.initializer),
            *(name for node in graph.node for name in node.output),
        )
    )


def _check_outputs(proto: onnx.GraphProto, graph: Graph) -> None:
    """What the model declares must be what it computes."""
    types = graph.types()
    for output in proto.output:
        declared = output.type.tensor_type
        if not output.type.HasField("tensor_type") or not declared.HasField("shape"):
            continue
        sizes = types[output.name].sizes
        dims = [declared_size(d) for d in declared.shape.dim]
        fits = len(dims) == len(sizes) and all(d in (None, n) for d, n in zip(dims, sizes, strict=True))
        if not fits:
            wanted = ["?" if d is None else d for d in dims]
            msg = (
                f"output {output.name!r} is declared with shape {wanted} and computes to {list(sizes)}; "
                "give other --shape values or export the model again"
            )
            raise ModelError(msg)
