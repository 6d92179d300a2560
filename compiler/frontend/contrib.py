"""Operators of the domain com.microsoft, defined by ONNX's own.

The definitions follow the operators' documentation (ContribOperators.md of onnxruntime). A call that needs more of an
operator than is defined here, as values of earlier steps, has no definition and is refused by name.
"""

from __future__ import annotations

from onnx import FunctionProto, NodeProto, helper

from compiler.frontend.contrib_call import Call, Sizes
from compiler.frontend.contrib_fused import FUSED
from compiler.frontend.contrib_quantised import QUANTISED

DOMAIN = "com.microsoft"
_OPSET = 20
_DEFINITIONS = {**QUANTISED, **FUSED}


def contributed(node: NodeProto, domain: str, sizes: Sizes) -> FunctionProto | None:
    """The definition of a call; None where there is none."""
    define = _DEFINITIONS.get(node.op_type) if domain == DOMAIN else None
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
