"""Workloads over a symbolic batch, made of the static ones that the tests share."""

from __future__ import annotations

from dataclasses import replace

from compiler.index import Index
from compiler.scalar import Expr, Load, rewrite
from compiler.symbol import Axis, Symbol
from compiler.workload.ir import Operand, Stage, Workload
from tests.compiler.workloads import KINDS, product

BATCH = Symbol("n0", 1, 1 << 20)
SIZES = (1, 2, 7, 8, 13, 32)


def batched(workload: Workload) -> Workload:
    """The Workload once per element of a batch n0, which is the outermost axis of everything but constants."""
    n, batch = Index.of("n0"), Index.of("b")
    constants = {o.name for o in workload.operands if o.constant}

    def grown(operand: Operand) -> Operand:
        return operand if operand.constant else replace(operand, shape=(n, *operand.shape))

    def rule(e: Expr) -> Expr | None:
        if not isinstance(e, Load) or e.buffer in constants:
            return None
        return Load(e.buffer, (batch, *e.indices))

    def stage(old: Stage) -> Stage:
        made = old.rewritten(lambda body: rewrite(body, rule), lambda _, indices: (batch, *indices))
        return replace(made, axes=(Axis("b", n), *old.axes))

    return Workload(
        tuple(map(grown, workload.operands)),
        tuple(map(grown, workload.temporaries)),
        tuple(map(grown, workload.outputs)),
        tuple(map(stage, workload.stages)),
        (BATCH,),
    )


def symbolic_rows(workload: Workload, shared: frozenset[str] = frozenset()) -> Workload:
    """The axis s0 runs over n0 rows, and so does the first dimension of every buffer but constants and `shared`."""
    n = Index.of("n0")

    def grown(operand: Operand) -> Operand:
        kept = operand.constant or operand.name in shared
        return operand if kept else replace(operand, shape=(n, *operand.shape[1:]))

    return Workload(
        tuple(map(grown, workload.operands)),
        tuple(map(grown, workload.temporaries)),
        tuple(map(grown, workload.outputs)),
        tuple(replace(s, axes=(Axis("s0", n), *s.axes[1:])) for s in workload.stages),
        (BATCH,),
    )


SYMBOLIC: dict[str, Workload] = {kind: batched(workload) for kind, workload in KINDS.items()} | {
    "matmul_rows": symbolic_rows(KINDS["matmul"]),
    "matmul_dynamic_rows": symbolic_rows(KINDS["matmul_dynamic"], frozenset({"x1"})),
    "product_of_activations": batched(product(2, 20, 24, 35, turned="x1")),
    "row_sum_rows": symbolic_rows(KINDS["row_sum"]),
    "add_relu_rows": symbolic_rows(KINDS["add_relu"]),
}
