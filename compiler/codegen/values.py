"""Scalar expressions as LLVM values: arithmetic, guards, loads; each scalar or a vector over the lane loop."""

from __future__ import annotations

from collections.abc import Set
from contextlib import AbstractContextManager, nullcontext
from typing import assert_never

from compiler.codegen.active import fewer, least
from compiler.codegen.arithmetic import Arithmetic
from compiler.codegen.conversions import convert
from compiler.codegen.dot import Dots
from compiler.codegen.emitter import Emitter
from compiler.codegen.fetches import Ahead
from compiler.codegen.groups import join_groups, take_group, weave_groups
from compiler.codegen.indices import Indices
from compiler.codegen.linear import Active, LaneDependent, Linear
from compiler.codegen.lookup import place
from compiler.codegen.math import RANGED, fused, is_rounded
from compiler.codegen.memory import Memory
from compiler.codegen.products import Products
from compiler.codegen.reciprocals import reciprocal_of
from compiler.codegen.totals import Totals
from compiler.codegen.types import Value, literal, llvm_type
from compiler.dtype import DType
from compiler.errors import CompileError
from compiler.graph.scalar_rules import interval
from compiler.loop.ir import Buffer
from compiler.scalar import FAR, Apply, Bound, Cast, Const, Dot, Expr, Guard, Load, Lookup, Pick, loads
from compiler.target import Target


class Values:
    """Emits expressions. Knows where the buffers are and which loop runs over the lanes."""

    def __init__(
        self,
        out: Emitter,
        target: Target,
        buffers: dict[str, Buffer],
        pointers: dict[str, str],
        written: Set[str],
    ) -> None:
        """`pointers`: SSA name of each global buffer; `written`: those that are stored to."""
        self._out, self._buffers = out, buffers
        self.indices = Indices(out)
        self.memory = Memory(out, self.indices, pointers, target, written)
        self._dots = Dots(out, self.indices, self.memory, buffers)
        self._arithmetic = Arithmetic(out, target)
        self.totals = Totals(out, target, self.memory, self._arithmetic, self.value)
        self.products = Products(out, self.indices, self.memory, self._arithmetic, buffers)
        self._guards = 0
        self._target = target

    def fetch(self, ahead: Ahead) -> None:
        """Have lines of memory brought nearer."""
        buffer, place = self._buffers[ahead.buffer], self.indices.linear(ahead.place)
        self.memory.fetch(buffer, place, ahead.lines, near=ahead.near)

    def fetch_place(self, load: Load, lines: set[tuple[str, Linear]], *, writes: bool = False) -> None:
        """Have the lines of a load brought nearer, but for those of `lines`, which it adds to."""
        self.memory.fetch_place(load, self._buffers[load.buffer], lines, writes=writes)

    # --- expressions

    def value(self, expr: Expr) -> Value:
        """Emit an expression."""
        if self.indices.groups > 1 and isinstance(expr, Load | Guard | Pick | Lookup):
            return self._by_group(expr)
        match expr:
            case Const(value, dtype):
                return self._literal(value, dtype)
            case Load():
                return self._load(expr)
            case Apply(op, args):
                return self._apply(op, args)
            case Guard():
                return self._guard(expr)
            case Cast(inner, dtype):
                return convert(self._out, self.value(inner), dtype)
            case Pick():
                return self._pick(expr)
            case Lookup():
                with self.looked_up(expr):
                    return self.value(expr.inside)
            case Dot():
                return self._dots.value(
                    expr, self._arithmetic.broadcast(self.value(expr.sum), self.indices.lanes)
                )
            case _:
                assert_never(expr)

    def _by_group(self, expr: Load | Guard | Pick | Lookup) -> Value:
        """What depends on memory, group by group of lanes, joined; a register holds all groups."""
        if isinstance(expr, Load) and self._buffers[expr.buffer].scope == "register":
            slot = self.memory.place_of_groups(expr, self._buffers[expr.buffer])
            if slot is not None:
                return self.memory.load_register(self._buffers[expr.buffer], slot)
        if isinstance(expr, Load) and self.memory.is_woven(expr, self._buffers[expr.buffer]):
            members = []
            for member in range(self.indices.lanes // self.indices.groups):
                with self.indices.at_member(member):
                    members.append(self._load(expr))
            return weave_groups(self._out, members)
        parts = []
        for group in range(self.indices.known_groups):
            with self.indices.at_group(group):
                parts.append(self.value(expr))
        return join_groups(
            self._out, parts, self.indices.groups, self.indices.lanes, self._arithmetic.broadcast
        )

    def _literal(self, value: float | int, dtype: DType) -> Value:
        return Value(literal(value, dtype), dtype, 0)

    def _pick(self, pick: Pick) -> Value:
        return self._literal(self._entry(pick), pick.dtype)

    def _entry(self, pick: Pick) -> float:
        place = self.indices.number(self.indices.linear(pick.index), 0)
        if not isinstance(place, int):
            msg = f"the table entry {pick.index} is only known at run time; unroll the loops around it"
            raise CompileError(msg)
        return pick.values[place]

    def vanishes(self, product: Expr) -> bool:
        """Whether a product has a picked 0 among its factors, or padding of zeros."""
        if isinstance(product, Pick):
            return self._entry(product) == 0
        if isinstance(product, Guard):
            zero = isinstance(product.outside, Const) and product.outside.value == 0
            return zero and any(map(self._never, product.bounds))
        return isinstance(product, Apply) and product.op == "mul" and any(map(self.vanishes, product.args))

    def _never(self, bound: Bound) -> bool:
        """Whether numbers alone tell that a bound does not hold."""
        try:
            linear = self.indices.linear(bound.index)
        except LaneDependent:
            return False
        return not linear.terms and not linear.lane and not bound.low <= linear.const < bound.high

    def _apply(self, op: str, args: tuple[Expr, ...]) -> Value:
        if op == "add" and self.vanishes(args[1]):
            return self.value(args[0])
        if op == "add" and self._target.has_fma:
            for addend, product in (args, args[::-1]):
                if isinstance(product, Apply) and product.op == "mul":
                    parts = [self.value(a) for a in (*product.args, addend)]
                    if all(part.dtype.is_float for part in parts):
                        return self._arithmetic.multiply_add(parts, begins=isinstance(addend, Load))
                    return self._arithmetic.operation(
                        "add", [self._arithmetic.operation("mul", parts[:2]), parts[2]]
                    )
        if op == "at_most":
            return self.value(args[0])
        if op in ("max", "min") and any(isinstance(a, Const) for a in args):
            return self._clamp(op, args)
        if op in RANGED:
            argument = self.value(args[0])
            if argument.dtype is DType.F32:
                ops = self._arithmetic.lanes(argument.lanes)
                known, rounded = interval(args[0], {}), is_rounded(args[0])
                return ops.wrapped(RANGED[op](ops, argument.text, known, rounded=rounded))
            return self._arithmetic.operation(op, [argument])
        return self._shorter(op, args) or self._arithmetic.operation(op, [self.value(a) for a in args])

    def _shorter(self, op: str, args: tuple[Expr, ...]) -> Value | None:
        """A division by a reciprocal, or the operation and the one below it as one function; None for others."""
        if op == "div" and self._target.has_fma and (reciprocal := reciprocal_of(args)) is not None:
            return self._arithmetic.quotient(self.value(args[0]), *reciprocal)
        function, inner = fused(op, args)
        if function is None:
            return None
        parts = [self.value(a) for a in inner]
        return self._arithmetic.operation(op, parts, function) if parts[0].dtype is DType.F32 else None

    def _clamp(self, op: str, args: tuple[Expr, ...]) -> Value:
        constant, other = args if isinstance(args[0], Const) else args[::-1]
        return self._arithmetic.clamp(op, self.value(constant), self.value(other))

    # --- guards

    def _guard(self, guard: Guard) -> Value:
        try:
            bounds = [(b, self.indices.linear(b.index)) for b in guard.bounds]
        except LaneDependent:
            held = self.indices.first_held(guard.bounds)
            return self._lane_by_lane(guard) if held is None else self._in_first(guard, guard.inside, held)
        if any(linear.lane for _, linear in bounds):
            return self._masked(guard, bounds) or self._guard_of_lanes(guard, bounds)
        tests = []
        for bound, linear in bounds:
            number = self.indices.number(linear, -bound.low)
            if isinstance(number, int):
                if not 0 <= number < bound.high - bound.low:
                    return self.value(guard.outside)
                continue
            tests.append(self._out.value(f"icmp ult i64 {number}, {bound.high - bound.low}"))
        if not tests:
            # Where other copies of an unrolled loop may not read, a block must not read ahead.
            return self._unguarded(guard.inside) if guard.tests_reads else self.value(guard.inside)
        condition = tests[0]
        for test in tests[1:]:
            condition = self._out.value(f"and i1 {condition}, {test}")
        return self._choose(condition, guard)

    def _masked(self, guard: Guard, bounds: list[tuple[Bound, Linear]]) -> Value | None:
        """A load that only some lanes may make, as masked loads; None where it is no such load."""
        if not isinstance(guard.inside, Load) or not isinstance(guard.outside, Const):
            return None
        buffer = self._buffers[guard.inside.buffer]
        tests = [Linear(linear.terms, linear.const - bound.low, linear.lane) for bound, linear in bounds]
        widths = [bound.high - bound.low for bound, _ in bounds]
        try:
            linear = self.memory.flat(guard.inside, buffer)
        except LaneDependent:
            return None
        if buffer.scope == "register":
            return None
        return self.memory.load_guarded(buffer, linear, list(zip(tests, widths, strict=True)), guard.outside)

    def _guard_of_lanes(self, guard: Guard, bounds: list[tuple[Bound, Linear]]) -> Value:
        """A guard that differs between lanes: masked where it holds in the first lanes of a known number."""
        rest = tuple(bound for bound, linear in bounds if not linear.lane)
        lanes = self.indices.lanes
        held: Active = lanes
        for bound, linear in bounds:
            if not linear.lane:
                continue
            below = not linear.terms and linear.const >= bound.low
            if linear.lane != 1 or not (below or bound.low <= -FAR):
                return self._lane_by_lane(guard)
            held = fewer(self._out, held, self.indices.number(linear._replace(lane=0), -bound.high))
        inner = Guard(rest, guard.inside, guard.outside) if rest else guard.inside
        return self._in_first(guard, inner, held)

    def _in_first(self, guard: Guard, inner: Expr, held: Active) -> Value:
        """What a guard is for in the first lanes, and in others what is outside."""
        lanes, active = self.indices.lanes, self.indices.active
        if not held:
            return self.value(guard.outside)
        if isinstance(held, str):
            held = least(self._out, held, active)
        elif isinstance(active, str):
            held = least(self._out, active, held)
        elif held >= active:
            return self._guard(inner) if isinstance(inner, Guard) else self._unguarded(inner)
        outside = self._arithmetic.broadcast(self.value(guard.outside), lanes)
        with self.indices.only(held):
            inside = self._guard(inner) if isinstance(inner, Guard) else self._unguarded(inner)
        mask = self.indices.first_lanes(held, lanes)
        return self._arithmetic.select_lanes(mask, self._arithmetic.broadcast(inside, lanes), outside)

    def _unguarded(self, expr: Expr) -> Value:
        self._guards += 1
        try:
            return self.value(expr)
        finally:
            self._guards -= 1

    def _choose(self, condition: str, guard: Guard) -> Value:
        """One of the two; what loads is done only where it is chosen, for its place may not exist elsewhere."""
        out, apart = self._out, bool(loads(guard.outside))
        inside_label, merge = out.label("inside"), out.label("merge")
        if apart:
            out.branch_if(condition, inside_label, label := out.label("outside"))
            out.start_block(label)
        with out.region() if apart else nullcontext():
            outside = self.value(guard.outside)
            if outside.text.startswith("%"):  # in case the inside is a vector
                outside = self._arithmetic.broadcast(outside, self.indices.lanes)
        before = out.block
        out.branch(merge) if apart else out.branch_if(condition, inside_label, merge)
        out.start_block(inside_label)
        with out.region():
            inside = self._unguarded(guard.inside)
            if outside.lanes and not inside.lanes:
                inside = self._arithmetic.broadcast(inside, outside.lanes)
        if inside.lanes and not outside.lanes:
            outside = self._arithmetic.broadcast(outside, inside.lanes)
        last = out.block
        out.branch(merge)
        out.start_block(merge)
        arms = f"[ {outside.text}, %{before} ], [ {inside.text}, %{last} ]"
        return Value(out.value(f"phi {inside.llvm_type} {arms}"), inside.dtype, inside.lanes)

    # --- memory

    def looked_up(self, lookup: Lookup) -> AbstractContextManager[None]:
        """A name for what is looked up: one address where all lanes look up the same number, else one per lane."""
        number = place(self._out, self._arithmetic, self.indices, self.value(lookup.value), lookup.found)
        if number.lanes:
            return self.indices.per_lane(lookup.found.name, number.text, number.llvm_type)
        return self.indices.variable(lookup.found.name, number.text)

    def _load(self, load: Load) -> Value:
        buffer = self._buffers[load.buffer]
        try:
            linear = self.memory.flat(load, buffer)
        except LaneDependent:
            # It reads for all lanes: a guard may forbid some.
            return (not self._guards and self.memory.load_pattern(load, buffer)) or self._lane_by_lane(load)
        if buffer.scope != "register" and linear.lane not in (0, 1):
            # A block reads ahead of this very element, where a guard may forbid it.
            block = None if self._guards else self.memory.load_transposed(load, buffer, linear)
            return block or self.memory.load_strided(buffer, linear) or self._lane_by_lane(load)
        return self.memory.load(buffer, linear, None if self._guards else load)

    def store(self, load: Load, value: Value) -> None:
        """Emit `buffer[indices] = value`; `load` carries the buffer and the indices."""
        buffer = self._buffers[load.buffer]
        value = convert(self._out, value, buffer.dtype)
        if self.indices.groups > 1:
            self._store_by_group(buffer, load, value)
            return
        try:
            linear = self.memory.flat(load, buffer)
        except LaneDependent:
            self._store_lane_by_lane(buffer, load, value)
            return
        if buffer.scope == "register":
            self.memory.store(
                buffer, linear, self._arithmetic.broadcast(value, self.indices.lanes if linear.lane else 0)
            )
        elif self.indices.lanes and linear.lane != 1:
            self._store_lane_by_lane(buffer, load, value)
        else:
            self.memory.store(buffer, linear, self._arithmetic.broadcast(value, self.indices.lanes))

    def _store_by_group(self, buffer: Buffer, load: Load, value: Value) -> None:
        value = self._arithmetic.broadcast(value, self.indices.lanes)
        slot = self.memory.place_of_groups(load, buffer) if buffer.scope == "register" else None
        if slot is not None:
            self.memory.store(buffer, slot, value)
            return
        for group in range(self.indices.known_groups):
            part = take_group(self._out, value, self.indices.groups, group)
            with self.indices.at_group(group):
                self.store(load, part)

    def same_in_all_lanes(self, place: Load) -> bool:
        """Whether this is a vector loop and all its lanes address one element."""
        return bool(self.indices.lanes) and self.memory.is_fixed(place, self._buffers[place.buffer])

    def combine_lanes(self, op: str, place: Load, term: Expr) -> None:
        """Emit `place = op(place, term)` for every active lane, the lanes combined first."""
        value = self.value(term)
        lanes, active = self.indices.lanes, self.indices.active
        ops = self._arithmetic
        value = ops.broadcast(value, lanes)
        if isinstance(active, str) or active < lanes:
            neutral_lanes = ops.broadcast(self.totals.neutral(op, value.dtype), lanes)
            value = ops.select_lanes(self.indices.first_lanes(active, lanes), value, neutral_lanes)
        buffer = self._buffers[place.buffer]
        if self.totals.wait and self.indices.groups == 1:
            self.totals.add(op, buffer, self.memory.flat(place, buffer), value)
            return
        total = self.totals.of_one(op, value)
        self.store(place, self.totals.with_element(op, self._load(place), total))

    def begin_total(self, load: Load, value: Expr) -> bool:
        """Whether what begins with a constant waits for lanes to be combined with it, instead of being stored."""
        buffer = self._buffers[load.buffer]
        return self.totals.wait and self.totals.begin(buffer, load, value, self.indices.lanes)

    def _store_lane_by_lane(self, buffer: Buffer, load: Load, value: Value) -> None:
        for lane, active in self.indices.each_lane():
            if not active:
                continue
            one = value
            if value.lanes:
                text = self._out.value(f"extractelement {value.llvm_type} {value.text}, i64 {lane}")
                one = Value(text, value.dtype, 0)
            with self._out.where(active), self.indices.at_lane(lane):
                self.memory.store(buffer, self.memory.flat(load, buffer), one)

    def _lane_by_lane(self, expr: Expr) -> Value:
        """A vector built from one scalar value per lane: gathers, and guards that differ between lanes."""
        lanes = self.indices.lanes
        vector, dtype = "poison", DType.F32
        for lane, active in self.indices.each_lane():
            if not active:
                continue
            before, one = self._out.block, None
            with self._out.where(active), self.indices.at_lane(lane):
                one = self.value(expr)
                last = self._out.block
            assert one is not None
            if isinstance(active, str):
                arms = f"[ {literal(0, one.dtype, 0)}, %{before} ], [ {one.text}, %{last} ]"
                one = Value(self._out.value(f"phi {one.llvm_type} {arms}"), one.dtype, 0)
            dtype = one.dtype
            kind = llvm_type(dtype, lanes)
            vector = self._out.value(
                f"insertelement {kind} {vector}, {llvm_type(dtype, 0)} {one.text}, i64 {lane}"
            )
        return Value(vector, dtype, lanes)
