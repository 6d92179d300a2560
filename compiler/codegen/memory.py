"""Loads and stores: vectors, masked at edges, from memory; registers as stack slots that LLVM promotes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from compiler.codegen.blocks import block_at, is_own_block, slot_align
from compiler.codegen.edges import load_first, store_first
from compiler.codegen.emitter import Emitter
from compiler.codegen.indices import Indices
from compiler.codegen.linear import Active, LaneDependent, Linear, Prepared
from compiler.codegen.runs import gathered, runs
from compiler.codegen.stored import Stored
from compiler.codegen.strided import pick_lanes, vector_starts
from compiler.codegen.three_byte_loads import load_three_bytes
from compiler.codegen.transpose import transpose
from compiler.codegen.types import Value, literal, llvm_type, suffix
from compiler.dtype import DType
from compiler.errors import CompileError
from compiler.loop.ir import Buffer
from compiler.scalar import Const, Load
from compiler.target import LINE_BYTES, Target

MOST_VECTORS = 4
"""Vectors that a load with a stride may take: lanes further apart are loaded one by one."""

_FAR = 1 << 31
_MOST = 1 << 30
"""Further than any lane is from another."""
_SECOND_CACHE, _ALL_CACHES = 2, 3
"""In LLVM's words: 3 stays in all caches, 0 in none."""


class Memory:
    """Emits accesses. `pointers`: SSA name of each global buffer."""

    def __init__(
        self,
        out: Emitter,
        indices: Indices,
        pointers: Mapping[str, str],
        target: Target,
        written: Set[str],
    ) -> None:
        """Start without slots. `written`: buffers that this function stores to; others keep what was read."""
        self._written = written
        # AVX2 masks 4 and 8 bytes; targets without masks have LLVM go lane by lane for those as well.
        self._masked_bytes = 1 if "avx512bw" in target.features else 4
        self._out, self._indices, self._pointers = out, indices, pointers
        self._masked_stores = target.masked_stores
        self.stored = Stored(out)
        self._slots: dict[tuple[str, int, int], str] = {}
        self._prepared: dict[int, tuple[Load, Prepared]] = {}

    def flat(self, load: Load, buffer: Buffer) -> Linear:
        """The offset in elements; the flattened expression is made once per load, however often it is unrolled.

        Raises LaneDependent where the lanes have no common form.
        """
        return self._indices.resolve(self.prepared(load, buffer))

    def prepared(self, load: Load, buffer: Buffer) -> Prepared:
        """The offset in elements, to be resolved."""
        known = self._prepared.get(id(load))
        if known is None:
            known = self._prepared[id(load)] = (load, Prepared(buffer.flat(load.indices)))
        return known[1]

    def keeps(self, buffer: Buffer) -> bool:
        """Whether what was read from a buffer stays in it: this function does not write it."""
        return buffer.name not in self._written

    def is_fixed(self, load: Load, buffer: Buffer) -> bool:
        """Whether the lanes of the vector loop all address one element."""
        try:
            return self.flat(load, buffer).lane == 0
        except LaneDependent:
            return False

    def load(self, buffer: Buffer, linear: Linear, source: Load | None = None) -> Value:
        """One element, or a vector where the offset moves by one; `source`: what is read, where no guard forbids it."""
        lanes = self._indices.lanes if linear.lane else 0
        kind = llvm_type(buffer.dtype, lanes)
        if buffer.scope == "register":
            slot = self._slot(buffer, linear, lanes)
            return Value(self._out.read_slot(slot, kind, slot_align(buffer, lanes)), buffer.dtype, lanes)
        if buffer.name in self._written:
            known = self.stored.find(buffer, linear, lanes) if lanes else None
            return known or Value(self._load_memory(buffer, linear, lanes), buffer.dtype, lanes)
        key = ("load", buffer.name, linear, lanes, self._indices.active)
        loaded = self._out.remembered(key)
        if loaded is None:
            loaded = self._out.remember(key, self._load_memory(buffer, linear, lanes, source))
        return Value(loaded, DType.F32 if buffer.dtype is DType.F24 else buffer.dtype, lanes)

    def load_register(self, buffer: Buffer, linear: Linear) -> Value:
        """The register whose first lane is at the offset, all groups of lanes together."""
        lanes = self._indices.lanes
        slot, kind = self._slot(buffer, linear, lanes), llvm_type(buffer.dtype, lanes)
        return Value(self._out.read_slot(slot, kind, slot_align(buffer, lanes)), buffer.dtype, lanes)

    def load_plain(self, buffer: Buffer, linear: Linear, kind: str) -> str:
        """Neighbouring elements as one value of an LLVM type, without a mask."""
        key = ("plain", buffer.name, linear, kind)
        known = None if buffer.name in self._written else self._out.remembered(key)
        if known is None:
            pointer = self.pointer(buffer, linear)
            found = self._out.value(f"load {kind}, ptr {pointer}, align {buffer.dtype.size_bytes}")
            known = self._out.remember(key, found)
        return known

    def load_transposed(self, load: Load, buffer: Buffer, linear: Linear) -> Value | None:
        """A vector whose lanes are far apart, as a column of a block that is read by rows; None where there is none."""
        lanes, active = self._indices.lanes, self._indices.active
        place = self._indices.place_in_block(self._prepared[id(load)][1].index, lanes)
        plain = buffer.name not in self._written and buffer.dtype is not DType.F24
        if place is None or lanes < 2 or not plain or not isinstance(active, int):
            return None
        start = linear._replace(const=linear.const - place)
        key = ("column", buffer.name, start, lanes, active)
        if self._out.remembered((*key, place)) is None:
            kind = llvm_type(buffer.dtype, lanes)
            rows = ["poison"] * lanes
            for lane in range(active):
                pointer = self.pointer(buffer, Linear(start.terms, start.const + lane * start.lane, 0))
                rows[lane] = self._out.value(f"load {kind}, ptr {pointer}, align {buffer.dtype.size_bytes}")
            for number, column in enumerate(transpose(self._out, rows, kind)):
                self._out.remember((*key, number), column)
        return Value(self._out.remembered((*key, place)) or "", buffer.dtype, lanes)

    def load_pattern(self, load: Load, buffer: Buffer) -> Value | None:
        """A vector whose lanes share a few neighbouring elements, which are loaded as one; None where they do not."""
        plain = buffer.scope != "register" and buffer.dtype is not DType.F24
        found = self._indices.by_lane(self.prepared(load, buffer).index) if plain else None
        if found is None:
            return None
        first, further = found
        lanes, low, count = self._indices.lanes, min(further), max(further) - min(further) + 1
        start = first._replace(const=first.const + low)
        if count == 1:
            return self.load(buffer, start)
        # From a whole number of blocks on, neighbours that read the same block share one load.
        block = block_at(buffer, start, lanes)
        before = start.const % block
        whole = -(-(before + count) // block) * block
        if whole <= lanes:
            start, low, count = start._replace(const=start.const - before), low - before, whole
        if count > lanes:
            return self._load_runs(buffer, first, further)
        kind = llvm_type(buffer.dtype, count)
        picked = [f"i32 {place - low}" for place in further] + ["i32 poison"] * (lanes - len(further))
        text = (
            f"shufflevector {kind} {self.load_plain(buffer, start, kind)}, {kind} poison, "
            f"<{lanes} x i32> <{', '.join(picked)}>"
        )
        return Value(self._out.value(text), buffer.dtype, lanes)

    def _load_runs(self, buffer: Buffer, first: Linear, further: Sequence[int]) -> Value | None:
        """A vector whose lanes are in a few short runs; None where they are not."""
        found = runs(further)
        if found is None:
            return None
        starts, length = found
        kind, lanes = llvm_type(buffer.dtype, length), self._indices.lanes
        vectors = [self.load_plain(buffer, first._replace(const=first.const + at), kind) for at in starts]
        scalar = llvm_type(buffer.dtype, 0)
        return Value(gathered(self._out, vectors, starts, further, lanes, scalar), buffer.dtype, lanes)

    def load_strided(self, buffer: Buffer, linear: Linear) -> Value | None:
        """A vector whose lanes are a few elements apart, picked out of whole vectors; None where they are far apart."""
        return self._load_spread(buffer, linear, (), "poison")

    def load_guarded(
        self, buffer: Buffer, linear: Linear, tests: Sequence[tuple[Linear, int]], outside: Const
    ) -> Value | None:
        """The same where 0 <= test < width for every test, `outside` in the other lanes, whose memory is not touched.

        None where the lanes are far apart, or a test does not move in step with the place in memory.
        """
        if any(test.lane % (linear.lane or 1) for test, _ in tests):
            return None
        if buffer.dtype.size_bytes < self._masked_bytes:
            return None
        elsewhere = literal(outside.value, buffer.dtype, self._indices.lanes)
        return self._load_spread(buffer, linear, tests, elsewhere)

    def _load_spread(
        self, buffer: Buffer, linear: Linear, tests: Sequence[tuple[Linear, int]], outside: str
    ) -> Value | None:
        lanes, step, active = self._indices.lanes, linear.lane, self._indices.active
        if not isinstance(active, int):
            # Where each vector would end is not known; without a stride it is only masked.
            if step != 1 or not tests:
                return None
            active = lanes
        last = (active - 1) * step
        if buffer.dtype is DType.F24 or not 1 <= step <= MOST_VECTORS or (last < lanes - 1 and not tests):
            return None
        starts = vector_starts(lanes, last, early=not tests)
        kind = llvm_type(buffer.dtype, lanes)
        vectors = []
        for start in starts:
            key = (
                *("spread", buffer.name, linear.terms, linear.const + start),
                *(lanes, tuple(tests), start if tests else 0, last, self._indices.active),
            )
            known = self._out.remembered(key)
            if known is None:
                pointer = self.pointer(buffer, Linear(linear.terms, linear.const + start, 0))
                if tests:
                    mask = self._tests_mask(tests, step, start, last)
                    known = self._masked_load(buffer, pointer, mask, outside)
                else:
                    known = self._out.value(f"load {kind}, ptr {pointer}, align {buffer.dtype.size_bytes}")
                if buffer.name not in self._written:
                    self._out.remember(key, known)
            vectors.append(known)
        return Value(pick_lanes(self._out, vectors, starts, step, lanes, kind), buffer.dtype, lanes)

    def _tests_mask(self, tests: Sequence[tuple[Linear, int]], step: int, start: int, last: int) -> str:
        """Which elements from `start` on are needed and pass all tests."""
        lanes, active = self._indices.lanes, self._indices.active
        counted = isinstance(active, int)
        held = [not counted or start + e <= last for e in range(lanes)]
        open_tests = []
        for test, width in tests:
            offsets = [(start + e) * (test.lane // step) for e in range(lanes)]
            number = self._indices.number(test, 0)
            if isinstance(number, int):
                held = [h and 0 <= number + o < width for h, o in zip(held, offsets, strict=True)]
            else:
                open_tests.append((number, width, offsets))
        mask = "" if counted else self._lane_mask(active)
        if not open_tests:
            known = "<" + ", ".join(f"i1 {str(h).lower()}" for h in held) + ">"
            return self._out.value(f"and <{lanes} x i1> {mask}, {known}") if mask else known
        for number, width, offsets in open_tests:
            passed = self._test(number, width, offsets, held)
            mask = self._out.value(f"and <{lanes} x i1> {mask}, {passed}") if mask else passed
        return mask

    def _test(self, number: str, width: int, offsets: list[int], held: list[bool]) -> str:
        """Whether 0 <= number + offset < width, per lane that is held; false in the others.

        What is known goes into the number, as all ones: LLVM 22.1 loses parts of a mask of 32 lanes that is combined
        with a constant one.
        """
        key = ("test", number, width, tuple(offsets), tuple(held))
        known = self._out.remembered(key)
        if known is not None:
            return known
        far = width >= _FAR
        if far:
            # Open below: the sign of the distance to the upper end decides, which fits if it is cut off.
            self._out.declarations.add("declare i64 @llvm.smin.i64(i64, i64)")
            number = self._out.value(f"sub i64 {width}, {number}")
            number = self._out.value(f"call i64 @llvm.smin.i64(i64 {number}, i64 {_MOST})")
            number = self._out.value(f"call i64 @llvm.smax.i64(i64 {number}, i64 {-_MOST})")
            self._out.declarations.add("declare i64 @llvm.smax.i64(i64, i64)")
        ints = f"<{len(offsets)} x i32>"
        narrow = self._out.value(f"trunc i64 {number} to i32")
        one = self._out.value(f"insertelement {ints} poison, i32 {narrow}, i64 0")
        every = self._out.value(f"shufflevector {ints} {one}, {ints} poison, {ints} zeroinitializer")
        if far:
            ends = ", ".join(f"i32 {o if h else 2**31 - 1}" for o, h in zip(offsets, held, strict=True))
            return self._out.remember(key, self._out.value(f"icmp sgt {ints} {every}, <{ends}>"))
        place = self._out.value(f"add {ints} {every}, <{', '.join(f'i32 {o}' for o in offsets)}>")
        if not all(held):
            ones = ", ".join(f"i32 {0 if h else -1}" for h in held)
            place = self._out.value(f"or {ints} {place}, <{ones}>")
        return self._out.remember(key, self._out.value(f"icmp ult {ints} {place}, splat (i32 {width})"))

    def _masked_load(self, buffer: Buffer, pointer: str, mask: str, outside: str) -> str:
        lanes = self._indices.lanes
        kind, bits = llvm_type(buffer.dtype, lanes), f"<{lanes} x i1>"
        function = f"@llvm.masked.load.{suffix(buffer.dtype, lanes)}.p0"
        self._out.declarations.add(f"declare {kind} {function}(ptr, i32 immarg, {bits}, {kind})")
        arguments = f"ptr {pointer}, i32 {buffer.dtype.size_bytes}, {bits} {mask}, {kind} {outside}"
        return self._out.value(f"call {kind} {function}({arguments})")

    def place_of_groups(self, load: Load, buffer: Buffer) -> Linear | None:
        """Where the register starts that holds all groups of an access; None where they share one."""
        places = []
        for group in (0, 1):
            with self._indices.at_group(group):
                places.append(self.flat(load, buffer))
        return places[0] if places[0] != places[1] else None

    def is_woven(self, load: Load, buffer: Buffer) -> bool:
        """Whether memory has the groups side by side, and the lanes of each further apart."""
        try:
            with self._indices.at_group(0):
                along = self.flat(load, buffer).lane
            with self._indices.at_member(0):
                across = self.flat(load, buffer).lane
        except LaneDependent:
            return False
        return buffer.scope != "register" and along not in (0, 1) and across == 1

    def store(self, buffer: Buffer, linear: Linear, value: Value, *, whole: bool = False) -> None:
        """Write one element, or a vector; a register takes every lane, memory only the active ones, if not `whole`."""
        if buffer.scope == "register":
            slot = self._slot(buffer, linear, value.lanes)
            self._out.write_slot(slot, value.llvm_type, slot_align(buffer, value.lanes), value.text)
            return
        pointer, align = self.pointer(buffer, linear), buffer.dtype.size_bytes
        self.stored.forget(buffer)
        whole = whole or not value.lanes or self._indices.active == value.lanes
        if whole or is_own_block(buffer, linear, value.lanes):
            self._out.emit(f"store {value.llvm_type} {value.text}, ptr {pointer}, align {align}")
            if self._indices.active == value.lanes:
                self.stored.keep(buffer, linear, value)
            return
        active = self._indices.active
        narrow = not self._masked_stores or buffer.dtype.size_bytes < self._masked_bytes
        # LLVM 22 makes one lane of a masked store a scalar of the type before its truncation, too wide for its place
        # (llvm-project issue 179489).
        if active == 1 or (narrow and isinstance(active, int)):
            store_first(self._out, pointer, value, active)
            return
        function = f"@llvm.masked.store.{suffix(buffer.dtype, value.lanes)}.p0"
        bits = f"<{value.lanes} x i1>"
        self._out.declarations.add(f"declare void {function}({value.llvm_type}, ptr, i32 immarg, {bits})")
        mask = self._lane_mask(self._indices.active)
        arguments = f"{value.llvm_type} {value.text}, ptr {pointer}, i32 {align}, {bits} {mask}"
        self._out.emit(f"call void {function}({arguments})")

    def fetch(self, buffer: Buffer, linear: Linear, lines: int, *, near: bool) -> None:
        """Have lines from a place on brought into the second cache, or the first; what is not there is no error."""
        for line in range(lines):
            start = linear._replace(const=linear.const + line * LINE_BYTES // buffer.dtype.size_bytes)
            self._fetch_line(buffer, start, _ALL_CACHES if near else _SECOND_CACHE)

    def _fetch_line(self, buffer: Buffer, linear: Linear, caches: int, *, writes: bool = False) -> None:
        self._out.declarations.add("declare void @llvm.prefetch.p0(ptr, i32 immarg, i32 immarg, i32 immarg)")
        pointer = self.pointer(buffer, linear)
        self._out.emit(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 {int(writes)}, i32 {caches}, i32 1)")

    def fetch_place(
        self, load: Load, buffer: Buffer, lines: set[tuple[str, Linear]], *, writes: bool
    ) -> None:
        """Have the line of a load's first lane brought nearer, unless it is one of `lines`, which it joins.

        Nothing is fetched where the lanes are far apart. `writes`: to be stored to.
        """
        try:
            linear = self.flat(load, buffer)
        except LaneDependent:
            return
        per_line = LINE_BYTES // buffer.dtype.size_bytes
        line = (buffer.name, linear._replace(const=linear.const // per_line))
        if linear.lane in (0, 1) and line not in lines:
            lines.add(line)
            self._fetch_line(buffer, linear, _ALL_CACHES, writes=writes)

    def _load_memory(self, buffer: Buffer, linear: Linear, lanes: int, source: Load | None = None) -> str:
        pointer = self.pointer(buffer, linear)
        if buffer.dtype is DType.F24:
            amid = source is not None and self._indices.is_amid(self.prepared(source, buffer))
            return load_three_bytes(self._out, pointer, lanes, masks=self._masked_bytes == 1, amid=amid)
        kind, align = llvm_type(buffer.dtype, lanes), buffer.dtype.size_bytes
        # A packed constant is padded to whole vectors: its edge needs no mask.
        whole = buffer.packing is not None or is_own_block(buffer, linear, lanes)
        if not lanes or self._indices.active == lanes or whole:
            return self._out.value(f"load {kind}, ptr {pointer}, align {align}")
        if buffer.dtype.size_bytes < self._masked_bytes and isinstance(self._indices.active, int):
            return load_first(self._out, pointer, buffer.dtype, lanes, self._indices.active)
        return self._masked_load(buffer, pointer, self._lane_mask(self._indices.active), "zeroinitializer")

    def pointer(self, buffer: Buffer, linear: Linear) -> str:
        """The address of an element."""
        size = buffer.dtype.size_bytes
        key = ("pointer", buffer.name, linear.terms)
        base = self._out.remembered(key)
        if base is None:
            base = self._pointers[buffer.name]
            for atom, coefficient in sorted(linear.terms, key=lambda term: self._indices.level(term[0])):
                base = self._indices.moved(base, str(atom), coefficient * size)
            self._out.remember(key, base)
        if not linear.const:
            return base
        return self._out.value(f"getelementptr i8, ptr {base}, i64 {linear.const * size}", "p")

    def _slot(self, buffer: Buffer, linear: Linear, lanes: int) -> str:
        if linear.terms or linear.lane not in (0, 1):
            msg = f"register {buffer.name} is addressed by a loop that is neither unrolled nor a vector; bind it"
            raise CompileError(msg)
        return self.slot(buffer, linear.const, lanes)

    def slot(self, buffer: Buffer, offset: int, lanes: int) -> str:
        """The stack slot of a register."""
        key = (buffer.name, offset, lanes)
        known = self._slots.get(key)
        if known is None:
            known = self._out.alloca(llvm_type(buffer.dtype, lanes), slot_align(buffer, lanes))
            self._slots[key] = known
        return known

    def _lane_mask(self, active: Active) -> str:
        return self._indices.first_lanes(active, self._indices.lanes)
