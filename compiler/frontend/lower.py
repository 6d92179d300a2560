"""Lowers nodes one after the other, each by its own lowering, or as ONNX defines it by other operators."""

from __future__ import annotations

from onnx import defs

from compiler.errors import LuthierError, ModelError, UnsupportedOperator
from compiler.frontend.builder import GraphBuilder
from compiler.frontend.call import OperatorCall
from compiler.frontend.functions import function_body
from compiler.frontend.limits import MAX_NODES
from compiler.frontend.older import as_of_opset_7
from compiler.frontend.operators import LOWERINGS
from compiler.frontend.tensors import TensorReader
from compiler.frontend.work import Work, instead_of


class Lowered:
    """How far lowering came: `rest` is what is left, at first all of it."""

    def __init__(self, work: Work | None, builder: GraphBuilder, tensors: TensorReader) -> None:
        """Nothing is done yet."""
        self.rest = work
        self._builder, self._tensors = builder, tensors

    def run(self) -> None:
        """Lower what is left; a node that cannot be lowered raises, and is then the first of `rest`.

        Raises:
            ModelError: a node is not valid.
            UnsupportedOperator: there is no lowering for it.
            NotStatic: it can be lowered as the model runs: NeedsValue and NeedsLoop say what for.
        """
        count = 0
        while self.rest is not None:
            count += 1
            if count > MAX_NODES:
                msg = f"the model expands to more than {MAX_NODES} nodes; use a smaller model"
                raise ModelError(msg)
            self.rest = self._one(self.rest)

    def _one(self, work: Work) -> Work | None:
        """Lower the first node; what comes next."""
        node = work.node
        domain = "" if node.domain == "ai.onnx" else node.domain
        opset = work.opsets.get(domain, 0)
        lowering = LOWERINGS.get(domain, {}).get(node.op_type)
        try:
            if lowering is not None:
                call = as_of_opset_7(
                    OperatorCall(
                        node, opset, work.name, work.operator, self._builder, self._tensors, work.opsets
                    )
                )
                lowering(call)
                return instead_of(work, call.pending)
            body = function_body(node, domain, opset, self._builder)
        except LuthierError:
            raise
        except (ArithmeticError, LookupError, TypeError, ValueError, MemoryError) as error:
            # A model may be malformed in ways that no check foresaw; its author gets a sentence, the cause is kept.
            reason = " ".join(str(error).split())[:200]
            msg = f"node {work.name!r} ({work.operator}) cannot be read ({reason}); export the model again"
            raise ModelError(msg) from error
        if body is None:
            raise UnsupportedOperator(work.operator, opset, work.name)
        # A definition may leave out the sets of operators that it takes from the model around it, or all but its own.
        versions = {"": defs.onnx_opset_version(), **work.opsets, **body.opsets}
        return instead_of(work, [(node, versions) for node in body.nodes])
