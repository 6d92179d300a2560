"""Entering a phase on a CPU: each caller passes the range of the parallel loop that is its share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compiler.codegen.entry import Walker
from compiler.errors import CompileError
from compiler.loop.ir import For, LoopKind, LoopNest, Stmt
from compiler.loop.promote import LEAST_SHARE, local_bytes
from compiler.target import Target

_VECTOR_WIDTH = {"x86_64": ("prefer-vector-width", "min-legal-vector-width")}
"""Attributes that make LLVM use the whole vector, per instruction set that has vectors of several lengths."""

_STACK_ALIGNMENT = 16
"""What callers keep, in bytes, on every CPU."""


class TeamEntry:
    """Functions with a range: void SYMBOL(pointers ..., sizes ..., int64_t begin, int64_t end)."""

    def __init__(self, target: Target) -> None:
        """Choose the attributes."""
        self._target = target
        width = "".join(
            f' "{name}"="{8 * target.vector_bytes}"' for name in _VECTOR_WIDTH.get(target.instruction_set, ())
        )
        # LLVM does not align the stack for the registers that it spills there, and one that lies across the end of a
        # page takes longer than all the rest of an iteration.
        stack = f" alignstack={target.vector_bytes}" if target.vector_bytes > _STACK_ALIGNMENT else ""
        self.attributes = f'nounwind{stack} "no-trapping-math"="true"{width}'

    def own_buffers(self, nest: LoopNest) -> tuple[list[str], Mapping[str, str]]:
        """None: threads of a CPU have no memory of that kind, and of their own half the cache that is next to them."""
        for buffer in nest.buffers:
            if buffer.scope == "shared":
                msg = f"buffer {buffer.name} is shared by the threads of a block, which {self._target.name} lacks"
                raise CompileError(msg)
        limit, needed = self._target.l2_bytes // 2, local_bytes(nest)
        if needed > limit + limit // LEAST_SHARE:
            msg = (
                f"kernel {nest.name} needs {needed} bytes of local buffers, {self._target.name} has {limit} for them; "
                "attach its stages at an inner loop"
            )
            raise CompileError(msg)
        return [], {}

    def head(self, symbol: str, params: Sequence[str], body: Stmt) -> str:
        """The pointers and sizes, then the share."""
        return f"define void @{symbol}({', '.join(params)}, i64 %begin, i64 %end) #0"

    def root(self, walker: Walker, body: Stmt) -> None:
        """The parallel loop over this caller's share; without one, the whole body belongs to share 0."""
        if isinstance(body, For) and body.kind is LoopKind.PARALLEL:
            var, inner = body.var, body.body
        else:
            var, inner = "", body
        out = walker.out
        out.starts("%begin")
        with out.loop("%begin", "%end", runs=False) as index, walker.indices.variable(var, index):
            walker.statement(inner)
