"""Sums of products: where most instructions of a kernel come from, and so most of the time to write them.

    t[i, j] += x[i, k] * y[k, j]        t: in registers, all three of one float type, i, j and k unrolled

The values are those of Values, found without walking the expression again for each copy: the operands of a copy are
known by their place, and already stand in all lanes.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.codegen.arithmetic import Arithmetic
from compiler.codegen.emitter import Emitter
from compiler.codegen.indices import Indices, LaneDependent, Moment, Prepared
from compiler.codegen.memory import Memory
from compiler.codegen.types import Value, llvm_type, suffix
from compiler.loop.ir import Buffer, Store
from compiler.scalar import Apply, Load


@dataclass(slots=True)
class _Factor:
    """One of the two loads, and what it depends on but the numbers of unrolled loops."""

    load: Load
    buffer: Buffer
    prepared: Prepared


@dataclass(slots=True)
class Product:
    """A statement that adds a product to a register.

    Attributes:
        moment: of the names for which `fits` holds.
        fits: whether this is the way to write it then.
    """

    place: Load
    total: Buffer
    target: Prepared
    left: _Factor
    right: _Factor
    moment: Moment | None = None
    fits: bool = False


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
        total = product.total
        target = indices.resolve(product.target)
        parts = []
        for factor in (product.left, product.right):
            linear = indices.resolve(factor.prepared)
            key = ("factor", factor.buffer.name, linear, lanes, indices.active)
            known = out.remembered(key)
            parts.append((key, known, None if known else self._memory.load(factor.buffer, linear)))
        slot = self._memory.load(total, target)
        texts = []
        for key, known, loaded in parts:
            if loaded is not None:
                known = out.remember(key, self._arithmetic.broadcast(loaded, lanes).text)
            texts.append(known)
        kind = llvm_type(total.dtype, lanes)
        function = f"@llvm.fma.{suffix(total.dtype, lanes)}"
        out.declarations.add(f"declare {kind} {function}({kind}, {kind}, {kind})")
        text = out.value(f"call {kind} {function}({kind} {texts[0]}, {kind} {texts[1]}, {kind} {slot.text})")
        self._memory.store(total, target, Value(text, total.dtype, lanes))
        return True

    def _fits(self, product: Product) -> bool:
        if self._indices.groups > 1 or not self._indices.lanes:
            return False
        try:
            target, left, right = (
                self._indices.resolve(p)
                for p in (product.target, product.left.prepared, product.right.prepared)
            )
        except LaneDependent:
            return False
        return target.lane == 1 and left.lane in (0, 1) and right.lane in (0, 1)
