"""Where a statement stores, and how it changes what is there."""

from __future__ import annotations

from compiler.codegen.products import Product
from compiler.dtype import DType
from compiler.loop.ir import Store
from compiler.scalar import Apply, Expr, Load


class Place:
    """Where a statement stores, and how it changes what is there; found once, however often it is unrolled.

    Attributes:
        op, term: what is combined with the value that is there; no term where the statement replaces it.
        is_looked_up: whether Lookups around the value say where it is stored.
        value: what is stored; a sum that may begin with either zero, so that LLVM leaves out the first addition.
    """

    def __init__(self, stmt: Store, product: Product | None, dtype: DType) -> None:
        self.stmt = stmt  # held, for it is known by its id
        self.product = product
        self.place = Load(stmt.buffer, stmt.indices)
        self.op, self.term = combined(stmt.value, self.place)
        self.value = stmt.value
        self.is_looked_up = any(index.looked_up() for index in stmt.indices)
        if self.op == "add" and self.term is not None and dtype is DType.F32 and not _multiplies(self.term):
            self.value = Apply("accumulate", (self.place, self.term))


def combined(value: Expr, place: Load) -> tuple[str, Expr | None]:
    """The operation and the term that a value combines what is at a place with; none where it replaces that."""
    match value:
        case Apply(op, (old, term)) if old == place:
            return op, term
    return "", None


def _multiplies(term: Expr) -> bool:
    return isinstance(term, Apply) and term.op == "mul"
