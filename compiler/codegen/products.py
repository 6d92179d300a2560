"""Sums of products: where most instructions of a kernel come from, and so most of the time to write them.

    t[i, j] += x[i, k] * y[k, j]        t: in registers, all three of one float type, i, j and k unrolled

The values are those of Values, found without walking the expression again for each copy: the operands of a copy are
known by their place, and already stand in all lanes.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.codegen.arithmetic import Arithmetic
from compiler.codegen.emitter import Emitter
from compiler.codegen.indices import Indices
from compiler.codegen.linear import Linear, Moment, Prepared
from compiler.codegen.memory import Memory
from compiler.codegen.types import Value, literal, llvm_type, suffix
from compiler.loop.ir import Buffer, Store
from compiler.scalar import Apply, Load


@dataclass(slots=True)
class _Factor:
    """One of the two loads. `number`: of its place at this moment, but for what unrolled loops move."""

    load: Load
    buffer: Buffer
    prepared: Prepared
    number: int = 0


@dataclass(slots=True)
class Product:
    """A statement that adds a product to a register.

    Attributes:
        moment: of the names for which `fits` holds.
        fits: whether this is the way to write it then.
        kind, call: the vector type, and the call of the multiply-add up to its operands, where it is.
        nothing: what a sum begins with, which the first product replaces.
    """

    place: Load
    total: Buffer
    target: Prepared
    left: _Factor
    right: _Factor
    moment: Moment | None = None
    fits: bool = False
    kind: str = ""
    call: str = ""
    nothing: str = ""


class Products:
    """Writes them, in the function of an Emitter."""

    def __init__(
        self,
        out: Emitter,
        indices: Indices,
        memory: Memory,
        arithmetic: Arithmetic,
        buffers: dict[str, Buffer],
    ) -> None:
        """Share the function's state."""
        self._out, self._indices, self._memory = out, indices, memory
        self._arithmetic, self._buffers = arithmetic, buffers
        self._places = 0

    def find(self, store: Store) -> Product | None:
        """The parts of a statement that adds a product of two elements to a register; None where it does not."""
        place = Load(store.buffer, store.indices)
        match store.value:
            case Apply("add", (Load() as old, Apply("mul", (Load() as left, Load() as right)))) if (
                old == place
            ):
                pass
            case _:
                return None
        total = self._buffers[store.buffer]
        factors = [self._buffers[load.buffer] for load in (left, right)]
        plain = all(
            f.scope != "register" and self._memory.keeps(f) and f.dtype is total.dtype for f in factors
        )
        if total.scope != "register" or not total.dtype.is_float or not plain:
            return None
        x, y = (
            _Factor(load, buffer, self._memory.prepared(load, buffer))
            for load, buffer in zip((left, right), factors, strict=True)
        )
        return Product(place, total, self._memory.prepared(place, total), x, y)

    def add(self, product: Product) -> bool:
        """Write one copy; False where Values has to, because lanes are gathered, combined or in groups."""
        moment = self._indices.moment
        if product.moment != moment:
            product.fits, product.moment = self._fits(product), moment
        if not product.fits:
            return False
        out, indices, lanes = self._out, self._indices, self._indices.lanes
        left, right = product.left, product.right
        at_left, at_right = indices.offset(left.prepared), indices.offset(right.prepared)
        key_left, key_right = (left.number, at_left), (right.number, at_right)
        x, y = out.remembered(key_left), out.remembered(key_right)
        new_x = None if x else self._load(left, at_left)
        new_y = None if y else self._load(right, at_right)
        kind = product.kind
        align = product.total.dtype.size_bytes * lanes
        slot = self._memory.slot(product.total, indices.offset(product.target), lanes)
        total = out.read_slot(slot, kind, align)
        if new_x is not None:
            x = out.remember(key_left, self._arithmetic.broadcast(new_x, lanes).text)
        if new_y is not None:
            y = out.remember(key_right, self._arithmetic.broadcast(new_y, lanes).text)
        if total == product.nothing:
            new = out.value(f"fmul {kind} {x}, {y}")
        else:
            new = out.value(f"{product.call}{kind} {x}, {kind} {y}, {kind} {total})")
        out.write_slot(slot, kind, align, new)
        return True

    def _load(self, factor: _Factor, offset: int) -> Value:
        prepared = factor.prepared
        return self._memory.load(factor.buffer, Linear(prepared.terms, offset, prepared.lane))

    def _fits(self, product: Product) -> bool:
        if self._indices.groups > 1 or not self._indices.lanes:
            return False
        places = product.target, product.left.prepared, product.right.prepared
        if not all(self._indices.fix(place) for place in places):
            return False
        for factor in (product.left, product.right):
            self._places += 1
            factor.number = self._places
        target, left, right = places
        if target.lane != 1 or target.terms or left.lane not in (0, 1) or right.lane not in (0, 1):
            return False
        product.kind = kind = llvm_type(product.total.dtype, self._indices.lanes)
        product.nothing = literal(0, product.total.dtype, self._indices.lanes)
        function = f"@llvm.fma.{suffix(product.total.dtype, self._indices.lanes)}"
        product.call = f"call {kind} {function}("
        self._out.declarations.add(f"declare {kind} {function}({kind}, {kind}, {kind})")
        return True
