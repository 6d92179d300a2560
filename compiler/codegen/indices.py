"""Index expressions as LLVM values, with loops that are constants (unrolled), SSA values (serial) or lanes (vector)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from math import gcd

from compiler.codegen.emitter import Emitter
from compiler.codegen.linear import Active, Found, LaneDependent, Lanes, Linear, Moment, Prepared
from compiler.errors import CompileError
from compiler.index import Atom, FloorDiv, Index, LookedUp, Mod, Times
from compiler.scalar import Bound


class Indices:
    """The environment of names. `lanes` is 0 outside a vector loop; `active` lanes of it are inside the extent.

    Two nested vector loops are one vector: the outer one numbers groups of `lanes // groups` neighbouring lanes. An
    index has no form for all groups; `at_group` gives one of them, whose lanes are those of the inner loop.
    """

    def __init__(self, out: Emitter) -> None:
        """Start without names."""
        self._out = out
        self._bindings = 0
        self._numbers: dict[str, int] = {}
        self._copies: dict[str, int] = {}
        self._ssa: dict[str, str] = {}
        self._vectors: dict[str, tuple[str, str]] = {}
        self._lane_name: str | None = None
        self._lane = 0
        self._group_name: str | None = None
        self.lanes = 0
        self.active: Active = 0
        self.groups = 1
        self.active_groups = 1

    # --- names

    @contextmanager
    def constant(self, name: str, value: int, copies: int = 1) -> Iterator[None]:
        """The name is a number inside; `copies`: how many values an unrolled loop gives it."""
        self._numbers[name], self._copies[name] = value, copies
        self._bindings += 1
        try:
            yield
        finally:
            del self._numbers[name], self._copies[name]
            self._bindings += 1

    def unrolled(self, name: str, copies: int) -> Iterator[None]:
        """Goes over the copies of a loop: the name is the copy's number in each."""
        self._copies[name] = copies
        for self._numbers[name] in range(copies):
            yield
        del self._copies[name]
        self._numbers.pop(name, None)

    def place_in_block(self, index: Index, length: int) -> int | None:
        """Where an unrolled loop that moves the expression by one stands in its aligned block of `length` values.

        None where there is no such loop, or where its block is cut off by the loop's end.
        """
        for atom, coefficient in index.terms:
            if coefficient == 1 and isinstance(atom, str) and atom in self._numbers:
                place = self._numbers[atom] % length
                if self._numbers[atom] - place + length <= self._copies[atom]:
                    return place
        return None

    @contextmanager
    def variable(self, name: str, ssa: str) -> Iterator[None]:
        """The name is an SSA value inside."""
        self._ssa[name] = ssa
        self._bindings += 1
        try:
            yield
        finally:
            del self._ssa[name]
            self._bindings += 1

    @contextmanager
    def per_lane(self, name: str, vector: str, kind: str) -> Iterator[None]:
        """The name is a lane of an SSA vector of LLVM type `kind`, of 64-bit integers, inside."""
        self._vectors[name] = vector, kind
        try:
            yield
        finally:
            del self._vectors[name]

    def enter_vector(self, name: str, lanes: int, active: Active) -> Lanes:
        """From here on the name runs over the lanes. Returns what `leave_vector` needs."""
        if self._group_name is not None:
            msg = f"vector loop {name} stands inside two other vector loops"
            raise CompileError(msg)
        before = self._lane_name, self.lanes, self.active
        if self._lane_name is not None:
            if not (isinstance(active, int) and isinstance(self.active, int)):
                msg = f"vectors of vector loop {name} have lengths that are only known at run time"
                raise CompileError(msg)
            self._group_name, self.groups, self.active_groups = self._lane_name, self.lanes, self.active
        self._lane_name, self.lanes, self.active = name, self.groups * lanes, active
        return before

    def leave_vector(self, before: Lanes) -> None:
        """The vector loop has ended."""
        self._group_name, self.groups, self.active_groups = None, 1, 1
        self._lane_name, self.lanes, self.active = before

    @property
    def known_groups(self) -> int:
        """Groups of lanes that are inside the extent of the outer of two vector loops."""
        assert isinstance(self.active_groups, int)
        return self.active_groups

    def at_group(self, group: int) -> AbstractContextManager[None]:
        """Inside, the outer of two vector loops is a number, and the vectors are those of the inner one."""
        inner = self._lane_name, self.lanes // self.groups, self.active
        return self._one_of_two(self._group_name, group, inner)

    def at_member(self, member: int) -> AbstractContextManager[None]:
        """Inside, the inner of two vector loops is a number, and the vectors have a lane of each group."""
        return self._one_of_two(self._lane_name, member, (self._group_name, self.groups, self.active_groups))

    @contextmanager
    def _one_of_two(self, fixed: str | None, number: int, lanes: Lanes) -> Iterator[None]:
        groups = self._group_name, self.groups, self.active_groups
        before = self._lane_name, self.lanes, self.active
        if self._group_name is None or fixed is None:
            msg = "there are no groups of lanes here"
            raise CompileError(msg)
        self._group_name, self.groups, self.active_groups = None, 1, 1
        self._lane_name, self.lanes, self.active = lanes
        try:
            with self.constant(fixed, number):
                yield
        finally:
            self._group_name, self.groups, self.active_groups = groups
            self._lane_name, self.lanes, self.active = before

    @contextmanager
    def at_lane(self, lane: int) -> Iterator[None]:
        """Inside, the lane loop is a number and there are no vectors."""
        name, lanes, active = self._lane_name, self.lanes, self.active
        if name is None:
            msg = "there is no vector loop here"
            raise CompileError(msg)
        self._lane_name, self._lane, self.lanes, self.active = None, lane, 0, 0
        try:
            with self.constant(name, lane):
                yield
        finally:
            self._lane_name, self.lanes, self.active = name, lanes, active

    @contextmanager
    def only(self, active: Active) -> Iterator[None]:
        """Inside, only the first lanes are active."""
        before, self.active = self.active, active
        try:
            yield
        finally:
            self.active = before

    def each_lane(self) -> list[tuple[int, bool | str]]:
        """Each lane and whether it is active: known, or an SSA value."""
        if isinstance(self.active, int):
            return [(lane, lane < self.active) for lane in range(self.lanes)]
        return [(lane, self._cached(f"icmp sgt i64 {self.active}, {lane}")) for lane in range(self.lanes)]

    def first_lanes(self, count: Active, lanes: int) -> str:
        """A vector of bits that are set in the first lanes."""
        if isinstance(count, int):
            return f"<{', '.join('i1 true' if lane < count else 'i1 false' for lane in range(lanes))}>"
        # No wider than most elements, so that the comparison is a vector of the length that it is used for.
        kind = f"<{lanes} x i32>"
        narrow = self._cached(f"trunc i64 {count} to i32")
        one = self._cached(f"insertelement {kind} poison, i32 {narrow}, i64 0")
        every = self._cached(f"shufflevector {kind} {one}, {kind} poison, {kind} zeroinitializer")
        places = ", ".join(f"i32 {lane}" for lane in range(lanes))
        return self._cached(f"icmp sgt {kind} {every}, <{places}>")

    def by_lane(self, index: Index) -> tuple[Linear, list[int]] | None:
        """The expression in the first lane, and how much further each active lane is; None where more differs."""
        if self._lane_name is None or self.groups > 1 or not isinstance(self.active, int):
            return None
        if any(found.name in self._vectors for found in index.looked_up()):
            return None
        first, *others = (
            _lowest_terms(index.substitute({self._lane_name: Index.of(lane)})) for lane in range(self.active)
        )
        if any(form.terms != first.terms for form in others):
            return None
        return self.linear(first), [0, *(form.const - first.const for form in others)]

    def first_held(self, bounds: Sequence[Bound]) -> int | None:
        """How many of the first lanes bounds hold in, which no other lane does; None where that is not known."""
        held = set(range(self.lanes))
        for bound in bounds:
            found = self.by_lane(bound.index)
            if found is None or found[0].terms:
                return None
            places = (found[0].const + further for further in found[1])
            held &= {lane for lane, place in enumerate(places) if bound.low <= place < bound.high}
        return len(held) if held == set(range(len(held))) else None

    def binding(self, index: Index) -> Index:
        """The index with unrolled loops replaced by their numbers."""
        return index.substitute({n: Index.of(self._numbers[n]) for n in index.names() if n in self._numbers})

    # --- numbers

    @property
    def moment(self) -> Moment:
        """The environment at this moment."""
        return self._bindings, self._lane_name, self._group_name, self.active

    def resolve(self, prepared: Prepared) -> Linear:
        """The expression under the names of this moment; in unrolled copies only what they move is looked up."""
        if not self.fix(prepared):
            return self.linear(prepared.index)
        return Linear(prepared.terms, self.offset(prepared), prepared.lane)

    def fix(self, prepared: Prepared) -> bool:
        """Find what holds at this moment; False where copies of an unrolled loop may differ in more than a number."""
        moment = self.moment
        terms = prepared.index.terms
        if prepared.moment != moment:
            prepared.moving = None
        if prepared.moment != moment and all(self._keeps(atom) for atom, _ in terms):
            linear = self.linear(prepared.index)
            prepared.terms, prepared.lane = linear.terms, linear.lane
            prepared.moving = tuple((str(atom), c) for atom, c in terms if atom in self._numbers)
        prepared.moment = moment
        return prepared.moving is not None

    def _keeps(self, atom: Atom) -> bool:
        """Whether it is a name, or a product that no unrolled loop changes."""
        if isinstance(atom, Times):
            return all(isinstance(factor, str) and factor not in self._numbers for factor in atom.factors)
        return isinstance(atom, str)

    def offset(self, prepared: Prepared) -> int:
        """The constant of an expression that was fixed at this moment, under the numbers of unrolled loops."""
        total, numbers = prepared.index.const, self._numbers
        for name, coefficient in prepared.moving or ():
            total += coefficient * numbers[name]
        return total

    def is_amid(self, prepared: Prepared) -> bool:
        """Whether copies of an unrolled loop lie two elements or more before this expression, and behind it."""
        numbers, copies = self._numbers, self._copies
        further = (name for name, coefficient in prepared.moving or () if abs(coefficient) > 1)
        return any(0 < numbers[name] < copies[name] - 1 for name in further)

    def linear(self, index: Index) -> Linear:
        """The expression under the names of this moment: numbers folded, the lane's coefficient set apart."""
        const, lane = index.const, 0
        numbers = self._numbers
        terms: list[tuple[Atom, int]] = []
        for part, coefficient in index.terms:
            if isinstance(part, str):
                atom = part
            elif isinstance(part, LookedUp):
                atom = self._looked_up(part)
            else:
                found = self._product(part) if isinstance(part, Times) else self._quotient(part)
                lane += coefficient * found.lane
                if found.value is None:
                    const += coefficient * found.factor
                else:
                    terms.append((found.value, coefficient * found.factor))
                continue
            if atom in numbers:
                const += coefficient * numbers[atom]
            elif atom == self._lane_name:
                lane += coefficient
            elif atom == self._group_name:
                msg = f"{atom} numbers groups of lanes"
                raise LaneDependent(msg)
            else:
                terms.append((self._ssa[atom], coefficient))
        return Linear(tuple(terms), const, lane)

    def _product(self, atom: Times) -> Found:
        """Raises LaneDependent where what a lane adds is only known at run time."""
        number, lane, values = 1, 0, list[str]()
        for factor in atom.factors:
            linear = self.linear(Index.of(factor))
            if linear.lane:
                lane = linear.lane
            elif linear.terms:
                values.append(str(self.number(linear, 0)))
            else:
                number *= linear.const
        if lane and values and number:
            msg = f"from lane to lane the stride is {' * '.join(values)}, which is only known at run time"
            raise LaneDependent(msg)
        if lane or not values or not number:
            return Found(None, 0 if lane else number, number * lane)
        return Found("*".join(sorted(values)), number, 0)

    def number(self, linear: Linear, plus: int) -> int | str:
        """The expression (its lane part left out) plus a number: an integer where it is known, else an SSA value."""
        if not linear.terms:
            return linear.const + plus
        total = ""
        for atom, coefficient in sorted(linear.terms, key=lambda term: self.level(term[0])):
            term = self.times(str(atom), coefficient)
            total = term if not total else self._out.early(f"add nsw i64 {total}, {term}", total, term)
        offset = linear.const + plus
        return total if not offset else self._out.early(f"add nsw i64 {total}, {offset}", total)

    def times(self, atom: str, factor: int) -> str:
        """A multiple of an SSA value, or of a product of them."""
        first, *others = sorted(atom.split("*"), key=self._out.level)
        atom = first
        for other in others:
            atom = self._out.early(f"mul nsw i64 {atom}, {other}", atom, other)
        return atom if factor == 1 else self._out.early(f"mul nsw i64 {atom}, {factor}", atom)

    def level(self, atom: Atom) -> int:
        """Region at whose start an SSA value, or a product of them, is there."""
        return max(self._out.level(part) for part in str(atom).split("*"))

    def moved(self, pointer: str, atom: str, step: int) -> str:
        """The pointer, `atom * step` bytes on: in step with the loop where the atom counts one."""
        *strides, index = sorted(atom.split("*"), key=self._out.level)
        moving = self._out.moving(pointer, index, self.times("*".join(strides), step) if strides else step)
        if moving is not None:
            return moving
        distance = self.times(atom, step)
        return self._out.early(
            f"getelementptr i8, ptr {pointer}, i64 {distance}", pointer, distance, hint="p"
        )

    def _looked_up(self, found: LookedUp) -> str:
        """The name, or the SSA value of the lane at hand; raises LaneDependent where there are several lanes."""
        if found.name not in self._vectors:
            return found.name
        if self._lane_name is not None:
            msg = f"{found.name} differs between the lanes of a vector"
            raise LaneDependent(msg)
        vector, kind = self._vectors[found.name]
        one = self._cached(f"extractelement {kind} {vector}, i64 {self._lane}")
        self._ssa[one] = one
        return one

    def _quotient(self, atom: Atom) -> Found:
        if not isinstance(atom, FloorDiv | Mod):
            raise TypeError(atom)
        inner = self.linear(atom.value)
        if inner.lane:
            msg = "a quotient over the lanes of a vector has no vector form"
            raise LaneDependent(msg)
        number, divisor = self.number(inner, 0), self.number(self.linear(Index.of(atom.divisor)), 0)
        if isinstance(number, int) and isinstance(divisor, int):
            return Found(None, number // divisor if isinstance(atom, FloorDiv) else number % divisor, 0)
        if _may_be_negative(atom.value):
            return Found(self._floored(number, divisor, quotient=isinstance(atom, FloorDiv)), 1, 0)
        word = "udiv" if isinstance(atom, FloorDiv) else "urem"
        operands = (str(n) for n in (number, divisor) if not isinstance(n, int))
        return Found(self._out.early(f"{word} i64 {number}, {divisor}", *operands), 1, 0)

    def _floored(self, number: int | str, divisor: int | str, *, quotient: bool) -> str:
        """The quotient rounded down, or what it leaves: the machine's rounds towards zero."""
        early = self._out.early
        operands = [n for n in (number, divisor) if isinstance(n, str)]
        rest = early(f"srem i64 {number}, {divisor}", *operands)
        below = early(f"ashr i64 {rest}, 63", rest)
        if quotient:
            towards_zero = early(f"sdiv i64 {number}, {divisor}", *operands)
            return early(f"add nsw i64 {towards_zero}, {below}", towards_zero, below)
        lift = early(f"and i64 {below}, {divisor}", below, *operands[-1:])
        return early(f"add nsw i64 {rest}, {lift}", rest, lift)

    def _cached(self, text: str) -> str:
        known = self._out.remembered(text)
        return self._out.remember(text, self._out.value(text, "x")) if known is None else known


def _lowest_terms(index: Index) -> Index:
    """`(c*4 + 3) // 8` as `c // 2`: what a divisor has in common with all that moves leaves the quotient as it is."""
    total = Index((), index.const)
    for atom, coefficient in index.terms:
        part = Index.of(atom)
        if isinstance(atom, FloorDiv) and isinstance(atom.divisor, int):
            value, step = atom.value, gcd(atom.divisor, *(c for _, c in atom.value.terms))
            part = Index(tuple((a, c // step) for a, c in value.terms), value.const // step) // (
                atom.divisor // step
            )
        total += part * coefficient
    return total


def _may_be_negative(index: Index) -> bool:
    """Whether the expression can be below zero; names are not."""
    if index.const < 0 or any(coefficient < 0 for _, coefficient in index.terms):
        return True
    return any(isinstance(a, FloorDiv) and _may_be_negative(a.value) for a, _ in index.terms)
