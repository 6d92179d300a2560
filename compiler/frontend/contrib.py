"""Operators of the domain com.microsoft, defined by ONNX's own.

The definitions follow the operators' documentation (ContribOperators.md of onnxruntime). A call that needs more of an
operator than is defined here, as values of earlier steps, has no definition and is refused by name.
"""

from __future__ import annotations

from onnx import FunctionProto, NodeProto, helper

from compiler.frontend.contrib_attention import ATTENTION
from compiler.frontend.contrib_blocks import IN_BLOCKS
from compiler.frontend.contrib_call import Call, Sizes
from compiler.frontend.contrib_fused import FUSED
from compiler.frontend.contrib_quantised import QUANTISED

DOMAIN = "com.microsoft"
_OPSET = 20
_DEFINITIONS = {**QUANTISED, **IN_BLOCKS, **FUSED, **ATTENTION}

MISPLACED = frozenset({"SimplifiedLayerNormalization"})
"""onnxruntime registers these under ONNX's own domain, and its optimiser writes them so."""


def contributed(node: NodeProto, domain: str, sizes: Sizes) -> FunctionProto | None:
    """The definition of a call; None where there is none."""
    ours = domain == DOMAIN or is_misplaced(node)
    define = _DEFINITIONS.get(node.op_type) if ours else None
    if define is None:
        return None
    call = Call(node, sizes)
    define(call)
    made = {name for inner in call.nodes for name in inner.output}
    outputs = [f"o{place}" for place in range(len(node.output))]
    if any(call.wants(place) and name not in made for place, name in enumerate(outputs)):
        return None
    inputs = [f"i{place}" for place in range(len(node.input))]
    opsets = [helper.make_opsetid("", _OPSET)]
    return helper.make_function(DOMAIN, node.op_type, inputs, outputs, call.nodes, opsets)


def is_misplaced(node: NodeProto) -> bool:
    """Whether ONNX, in whose name the node stands, does not know its operator, and onnxruntime does."""
    return node.op_type in MISPLACED and node.domain in ("", "ai.onnx")
