"""Sums of products in registers that hold whole matrices.

    for k.o:                                                  the sums: zero, or from memory
      for k.i, rows, columns unrolled:                        for k.o:
        for n vector: t[m, n] = tdpbusd(t, x, w over j)   →     of each 16 rows of x and 16 columns of w: a register
                                                                of each pair: an instruction
                                                              the sums to memory

What the registers hold (rows, and bytes of a row) is set once per function, and around nests that need another setting.
Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18 (Intel AMX).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product

from compiler.codegen.emitter import Emitter
from compiler.codegen.indices import Indices
from compiler.codegen.linear import Linear
from compiler.codegen.matrix_registers import Form, assigned
from compiler.codegen.memory import Memory
from compiler.errors import CompileError
from compiler.index import Index
from compiler.instruction import INSTRUCTIONS, Instruction
from compiler.loop.ir import Buffer, For, LoopKind, Stmt, Store, sub_statements
from compiler.matrix_order import MatrixOrder, heights_of, matrix_order
from compiler.scalar import Const, Dot, Load
from compiler.target import MATRIX_REGISTERS

_CHAINED = (LoopKind.SERIAL, LoopKind.UNROLLED)
_GROUP_BYTES, _SUM_BYTES = 4, 4
_LOAD, _STORE, _ZERO = "llvm.x86.tileloadd64", "llvm.x86.tilestored64", "llvm.x86.tilezero"
_CONFIGURE, _RELEASE = "llvm.x86.ldtilecfg", "llvm.x86.tilerelease"


@dataclass(frozen=True)
class MatrixNest:
    """A reduction by an instruction on matrices.

    Attributes:
        root: its outermost loop.
        body: the outermost of the loops that the instruction takes in, unrolled over groups, rows and vectors.
        loops: those that are in the code, by name, and their iterations.
        vector: the innermost loop.
    """

    root: For
    body: For
    loops: dict[str, int]
    vector: For
    store: Store
    dot: Dot

    @property
    def entry(self) -> Instruction:
        """The instruction."""
        return INSTRUCTIONS[self.dot.instruction]

    def extent(self, name: str | None) -> int:
        """Iterations of a loop; 1 where there is none."""
        return 1 if name is None else self.loops[name]


def matrix_nests(stmt: Stmt) -> Iterator[MatrixNest]:
    """All of a statement."""
    chain: list[For] = []
    inner = stmt
    while isinstance(inner, For) and inner.kind in _CHAINED:
        chain.append(inner)
        inner = inner.body
    found = _nest(chain, inner)
    if found is not None:
        yield found
    else:
        for part in sub_statements(stmt):
            yield from matrix_nests(part)


def _nest(chain: list[For], inner: Stmt) -> MatrixNest | None:
    match inner:
        case For(_, _, LoopKind.VECTOR, Store(value=Dot() as dot) as store) if INSTRUCTIONS[
            dot.instruction
        ].takes_matrices:
            pass
        case _:
            return None
    stored = {name for index in store.indices for name in index.names()}
    inside = next((i for i, f in enumerate(chain) if f.kind is LoopKind.UNROLLED), len(chain))
    if any(f.kind is not LoopKind.UNROLLED or f.extent.bound is not None for f in chain[inside:]):
        msg = f"the loops that {dot.instruction} takes in must be unrolled, and their iterations known"
        raise CompileError(msg)
    outermost = max((i + 1 for i, f in enumerate(chain[:inside]) if f.var in stored), default=0)
    body = chain[inside] if inside < len(chain) else inner
    root = chain[outermost] if outermost < len(chain) else inner
    loops = {f.var: f.extent.limit for f in chain[inside:]}
    return MatrixNest(root, body, loops, inner, store, dot)


def clears(stmt: Stmt, nest: MatrixNest) -> bool:
    """Whether the statement sets all the sums of a nest to zero, and does nothing else."""
    loops: dict[str, int] = {}
    while isinstance(stmt, For) and stmt.kind is LoopKind.UNROLLED and stmt.extent.bound is None:
        loops[stmt.var] = stmt.extent.limit
        stmt = stmt.body
    match stmt:
        case For(var, extent, LoopKind.VECTOR, Store(buffer, indices, Const(value=0))):
            stored = {name for index in nest.store.indices for name in index.names()}
            own = {name: size for name, size in nest.loops.items() if name in stored}
            same = (var, extent) == (nest.vector.var, nest.vector.extent) and own == loops
            return same and buffer == nest.store.buffer and indices == nest.store.indices
        case _:
            return False


@dataclass(frozen=True)
class _Operand:
    """Where a factor or the sums lie: the place of the first element, and elements between neighbours along loops."""

    buffer: Buffer
    first: Linear
    steps: dict[str, int]

    def step(self, name: str | None) -> int:
        """Elements between neighbours along a loop; 0 where there is no loop."""
        return 0 if name is None else self.steps[name]

    def at(self, offset: int) -> Linear:
        """The place so many elements behind the first."""
        return Linear(self.first.terms, self.first.const + offset, 0)


@dataclass(frozen=True, slots=True)
class _Names:
    """The loops in a body, None where there is one iteration and no loop; `others` than those of one instruction."""

    groups: str | None
    rows: str | None
    vectors: str | None
    others: tuple[str, ...]


class Matrices:
    """Emits the nests of one function."""

    def __init__(
        self, out: Emitter, indices: Indices, memory: Memory, buffers: dict[str, Buffer], body: Stmt
    ) -> None:
        """Share the function's state, and find its nests."""
        self._out, self._indices, self._memory, self._buffers = out, indices, memory, buffers
        found = list(matrix_nests(body))
        self._nests = {id(nest.root): nest for nest in found}
        self._bodies = {id(nest.body): nest for nest in found}
        self._fresh: set[int] = set()
        self._orders = {id(nest.root): self._order(nest) for nest in found}
        self._assigned = assigned({id(nest.root): self._forms(nest) for nest in found})
        self._usual = next(iter(self._assigned.values())).setting.configuration() if found else b""
        self._woven: dict[int, Sequence[Callable[[], None]]] = {}
        self._inside = False

    def begin_function(self) -> None:
        """Set the registers up as the largest nest needs them."""
        if self._usual:
            self._configure(self._usual)

    def end_function(self) -> None:
        """Leave the registers unused, so that nobody has to save them."""
        if self._usual:
            self._out.declarations.add(f"declare void @{_RELEASE}()")
            self._out.emit(f"call void @{_RELEASE}()")

    def is_cleared_next(self, statements: Sequence[Stmt], place: int) -> bool:
        """Whether a statement sets the sums of the nest behind it to zero: it is left out, for registers can be."""
        if not self._nests or place + 1 == len(statements):
            return False
        nest = self._nests.get(id(statements[place + 1]))
        if nest is None or not clears(statements[place], nest):
            return False
        self._fresh.add(id(nest.root))
        return True

    def weave(self, nest: MatrixNest, emit: Sequence[Callable[[], None]]) -> None:
        """Have something emitted between the products of each step, spread evenly."""
        self._woven[id(nest.root)] = emit

    def root(self, stmt: Stmt) -> MatrixNest | None:
        """The nest that begins with a statement, but inside of it."""
        return None if self._inside else self._nests.get(id(stmt))

    def body(self, stmt: Stmt) -> MatrixNest | None:
        """The nest whose instructions take the place of a statement."""
        return self._bodies.get(id(stmt)) if self._inside else None

    def begin(self, nest: MatrixNest) -> None:
        """The sums come into registers, which are set up for them where another setting is usual."""
        if (setting := self._setting(nest)) != self._usual:
            self._configure(setting)
        self._inside = True
        if id(nest.root) in self._fresh:
            self._out.declarations.add(f"declare void @{_ZERO}(i8 immarg)")
            high, wide = self._grid(nest)
            numbers = self._assigned[id(nest.root)].numbers
            for register in range(high * wide):
                self._out.emit(f"call void @{_ZERO}(i8 {numbers[register]})")
        else:
            self._move_sums(nest, _LOAD)

    def end(self, nest: MatrixNest) -> None:
        """The sums go to memory."""
        self._inside = False
        self._move_sums(nest, _STORE)
        if self._setting(nest) != self._usual:
            self._configure(self._usual)

    def _setting(self, nest: MatrixNest) -> bytes:
        return self._assigned[id(nest.root)].setting.configuration()

    def step(self, nest: MatrixNest) -> None:
        """All products of the body, in the order that loads the fewest operands."""
        self._out.declarations.update(nest.entry.declarations)
        names, order = self._names(nest), self._orders[id(nest.root)]
        numbers = self._assigned[id(nest.root)].numbers
        factors: list[tuple[_Operand, _Operand]] = []
        for place in product(*(range(nest.loops[name]) for name in names.others)):
            with ExitStack() as stack:
                for name, number in zip(names.others, place, strict=True):
                    stack.enter_context(self._indices.constant(name, number))
                factors.append(self._factors(nest))
        wide, count = nest.extent(names.vectors), len(order.products)
        woven = self._woven.get(id(nest.root), ())
        for number, p in enumerate(order.products):
            left, right = factors[p.pair]
            if p.loads_left:
                step = left.step(names.rows)
                self._move(_LOAD, numbers[p.left], left, p.row * nest.entry.rows * step, step)
            if p.loads_right:
                offset = p.column * right.step(names.vectors)
                self._move(_LOAD, numbers[p.right], right, offset, right.step(names.groups))
            sums, left_number, right_number = (numbers[n] for n in (p.row * wide + p.column, p.left, p.right))
            self._out.emit(nest.entry.template[0].format(sum=sums, left=left_number, right=right_number))
            for emit in woven[number * len(woven) // count : (number + 1) * len(woven) // count]:
                emit()

    def _factors(self, nest: MatrixNest) -> tuple[_Operand, _Operand]:
        """Where the data and the weights of a pair lie."""
        entry, names = nest.entry, self._names(nest)
        left = self._operand(nest.dot.left, nest, 0)
        right = self._operand(nest.dot.right, nest, entry.group)
        if left.step(nest.dot.var) != 1 or (names.groups and left.step(names.groups) != entry.group):
            raise _misplaced(nest.dot.left)
        if right.step(nest.dot.var) != 1:
            raise _misplaced(nest.dot.right)
        return left, right

    def _move(self, name: str, register: int, operand: _Operand, offset: int, step: int) -> None:
        """Between a register and memory; `offset`, `step`: elements to its first row, and from each to the next."""
        self._out.declarations.add(f"declare void @{name}(i8 immarg, ptr, i64)")
        if name == _STORE:
            self._memory.stored.forget(operand.buffer)
        pointer = self._memory.pointer(operand.buffer, operand.at(offset))
        step *= operand.buffer.dtype.size_bytes
        self._out.emit(f"call void @{name}(i8 {register}, ptr {pointer}, i64 {step})")

    def _move_sums(self, nest: MatrixNest, name: str) -> None:
        names = self._names(nest)
        rows, vectors = names.rows, names.vectors
        sums = self._operand(Load(nest.store.buffer, nest.store.indices), nest, 1)
        high, wide = self._grid(nest)
        numbers = self._assigned[id(nest.root)].numbers
        for i in range(high):
            for j in range(wide):
                offset = i * nest.entry.rows * sums.step(rows) + j * sums.step(vectors)
                self._move(name, numbers[i * wide + j], sums, offset, sums.step(rows))

    def _operand(self, load: Load, nest: MatrixNest, lane: int) -> _Operand:
        """Where an operand lies, and how far the instruction's loops move it; `lane`: elements between lanes."""
        buffer = self._buffers[load.buffer]
        others = self._names(nest).others
        names = (*(name for name in nest.loops if name not in others), nest.dot.var)
        steps: dict[str, int] = {}
        before = self._indices.enter_vector(nest.vector.var, nest.entry.lanes, nest.entry.lanes)
        with ExitStack() as stack:
            for name in names:
                stack.enter_context(self._indices.constant(name, 0))
            first = self._memory.flat(load, buffer)
        for moved in names:
            with ExitStack() as stack:
                for name in names:
                    stack.enter_context(self._indices.constant(name, int(name == moved)))
                place = self._memory.flat(load, buffer)
            if place.terms != first.terms:
                raise _misplaced(load)
            steps[moved] = place.const - first.const
        self._indices.leave_vector(before)
        if first.lane != lane:
            raise _misplaced(load)
        return _Operand(buffer, first._replace(lane=0), steps)

    def _names(self, nest: MatrixNest) -> _Names:
        stored = {name for index in nest.store.indices for name in index.names()}
        # Behind the one that vectors lie along there may be dimensions of one element.
        last = next((found for i in reversed(nest.store.indices) if (found := i.names())), frozenset())
        sums = [name for name in nest.loops if name not in stored]
        rows = [name for name in nest.loops if name in stored - last]
        vectors = [name for name in nest.loops if name in last]
        if max(len(rows), len(vectors)) > 1:
            msg = f"{nest.entry.name} takes in one loop each over rows and vectors"
            raise CompileError(msg)
        moves = {n for n in sums for i in nest.dot.left.indices if i.coefficient(n) == nest.entry.group}
        groups = sums[-1] if sums and sums[-1] in moves else None
        others = tuple(name for name in sums if name != groups)
        return _Names(groups, next(iter(rows), None), next(iter(vectors), None), others)

    def _grid(self, nest: MatrixNest) -> tuple[int, int]:
        """Matrices of sums below each other, and beside each other."""
        names = self._names(nest)
        rows, vectors = names.rows, names.vectors
        return -(-nest.extent(rows) // nest.entry.rows), nest.extent(vectors)

    def _order(self, nest: MatrixNest) -> MatrixOrder:
        names = self._names(nest)
        heights = heights_of(nest.extent(names.rows), nest.entry.rows)
        numbers = list(product(*(range(nest.loops[name]) for name in names.others)))
        found: list[list[int]] = []
        for load in (nest.dot.left, nest.dot.right):
            places: dict[tuple[Index, ...], int] = {}
            taken = [
                tuple(
                    i.substitute(dict(zip(names.others, map(Index.of, n), strict=True))) for i in load.indices
                )
                for n in numbers
            ]
            found.append([places.setdefault(at, len(places)) for at in taken])
        pairs = tuple(zip(*found, strict=True))
        wide, groups = nest.extent(names.vectors), nest.extent(names.groups)
        order = matrix_order(heights, wide, groups, pairs)
        if order is None:
            msg = f"{len(heights)} x {wide} matrices and their operands need more than {MATRIX_REGISTERS} registers"
            raise CompileError(msg)
        return order

    def _forms(self, nest: MatrixNest) -> dict[int, Form]:
        """Rows and bytes of a row of each register in use: the sums, the data, and the weights."""
        order, (high, wide) = self._orders[id(nest.root)], self._grid(nest)
        data = nest.extent(self._names(nest).groups) * _GROUP_BYTES
        lanes = nest.entry.lanes * _SUM_BYTES
        found = {n: (order.rows[n], lanes) for n in range(high * wide)}
        found |= {p.left: (order.rows[p.left], data) for p in order.products}
        return found | {p.right: (order.rows[p.right], lanes) for p in order.products}

    def _configure(self, setting: bytes) -> None:
        name = f"@matrices_{setting.hex()}"
        text = "".join(f"\\{byte:02X}" for byte in setting)
        self._out.declarations |= {
            f'{name} = private unnamed_addr constant [{len(setting)} x i8] c"{text}", align {len(setting)}',
            f"declare void @{_CONFIGURE}(ptr)",
        }
        self._out.emit(f"call void @{_CONFIGURE}(ptr {name})")


def _misplaced(load: Load) -> CompileError:
    return CompileError(
        f"the operand {load.buffer} of an instruction on matrices does not lie as it needs; pack it"
    )
