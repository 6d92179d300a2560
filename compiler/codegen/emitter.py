"""Emitter: LLVM IR as text, one function at a time.

Text is several times faster to make than an object per instruction, and LLVM parses a kernel in under a millisecond.
Values made in an enclosing region are remembered, so that unrolled copies share loads, addresses and broadcasts.
Addresses are made as far out as their operands allow, and loops carry pointers along, one addition per iteration: LLVM
then has little left to share or to reduce, which is where its time went.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

_COPIES = 4
"""Of a constant in memory: LLVM makes an operand of what is read once in a block, and takes a register for the rest, so
unrolled copies of an expression read one each."""

_SAME = "@llvm.strip.invariant.group.p0"
"""Gives its argument back, and is gone before instructions are selected. Loop strength reduction does not look through
it, and so leaves a pointer that a loop carries as it is, instead of searching for a better form among thousands."""


_OFFSET_NEEDS = 2
"""Pointers that move alike, from which on one offset for all of them is fewer additions."""


@dataclass(slots=True)
class _Loop:
    """A loop that is open: where it starts to count, and the pointers that move with it.

    `streams`: (name, where it starts) of the pointers, by how far they move in each iteration.
    """

    first: str
    streams: dict[int | str, list[tuple[str, str]]] = field(default_factory=dict)


@dataclass(slots=True)
class _Moves:
    """What a loop's pointers are: instructions at its head and at its end.

    `ends`: what a pointer is in the next iteration, where it started and how far it moves, where that is known.
    """

    phis: list[str] = field(default_factory=list)
    pointers: list[str] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    ends: list[tuple[str, str, int]] = field(default_factory=list)


class Emitter:
    """Collects the body of one function."""

    def __init__(self, prefix: str = "", *, carried: bool = True, indexed: bool = False) -> None:
        """Start in the entry block.

        `prefix`: of all names, where several emitters write one function. `carried`: whether loops carry pointers
        along; without, an address is computed from the loop's index each time. `indexed`: whether an innermost loop
        carries one offset for pointers that move alike, because the sum of two registers is an address for nothing.
        """
        self._prefix, self._carried, self._indexed = prefix, carried, indexed
        self.lines: list[str] = []
        self.allocas: list[str] = []
        self.declarations: set[str] = set()
        self.block = "entry"
        self._count = 0
        self._known: dict[Hashable, str] = {}
        self._made: list[list[Hashable]] = [[]]
        self._heads: list[list[str]] = [[]]
        self._levels: dict[str, int] = {}
        self._loops: dict[str, _Loop] = {}
        self._slots: dict[str, str] = {}
        self._unwritten: dict[str, tuple[str, int]] = {}
        self._constants: dict[str, int] = {}

    def name(self, hint: str = "v") -> str:
        """A fresh SSA name."""
        self._count += 1
        return f"%{self._prefix}{hint}{self._count}"

    def emit(self, text: str) -> None:
        """Append an instruction without a result."""
        self.lines.append("  " + text)

    def value(self, text: str, hint: str = "v") -> str:
        """Append an instruction and return the name of its result."""
        result = self.name(hint)
        self.lines.append(f"  {result} = {text}")
        return result

    def alloca(self, llvm_type: str, align: int) -> str:
        """A stack slot, made once at the function's entry."""
        slot = self.name("slot")
        self._levels[slot] = 0
        self.allocas.append(f"  {slot} = alloca {llvm_type}, align {align}")
        return slot

    def read_slot(self, slot: str, llvm_type: str, align: int) -> str:
        """The value in a stack slot; within a block it stays in SSA form."""
        if slot not in self._slots:
            self._slots[slot] = self.value(f"load {llvm_type}, ptr {slot}, align {align}")
        return self._slots[slot]

    def write_slot(self, slot: str, llvm_type: str, align: int, value: str) -> None:
        """Change the value in a stack slot; the store is made at the end of the block, once."""
        self._slots[slot] = value
        self._unwritten[slot] = llvm_type, align

    def _write_slots(self) -> None:
        for slot, (llvm_type, align) in self._unwritten.items():
            self.emit(f"store {llvm_type} {self._slots[slot]}, ptr {slot}, align {align}")
        self._unwritten.clear()

    def constant(self, kind: str, literal: str, align: int) -> str:
        """A vector of constants, read from memory: an operand that needs no register."""
        place = self._constants[literal] = self._constants.get(literal, -1) + 1
        bits = "".join(c for c in literal if c.isalnum())
        name = f'@"{kind}.{bits}.{place % _COPIES}"'
        self.declarations.add(f"{name} = private constant {kind} {literal}, align {align}")
        return self.value(f"load {kind}, ptr {name}, align {align}")

    def remembered(self, key: Hashable) -> str | None:
        """The value that this or an enclosing region made for the key."""
        return self._known.get(key)

    def remember(self, key: Hashable, value: str) -> str:
        """Remember a value until the region ends."""
        return self._remember_at(key, value, -1)

    def _remember_at(self, key: Hashable, value: str, level: int) -> str:
        self._made[level].append(key)
        self._known[key] = value
        return value

    @contextmanager
    def region(self) -> Iterator[None]:
        """A loop body or branch: what is remembered inside is forgotten after it."""
        self._made.append([])
        self._heads.append([])
        place = len(self.lines)
        self.lines.append("")
        try:
            yield
        finally:
            for key in self._made.pop():
                self._known.pop(key, None)
            self.lines[place : place + 1] = ["\n".join(h)] if (h := self._heads.pop()) else []

    @property
    def head(self) -> list[str]:
        """Instructions of the function's start."""
        return self._heads[0]

    def starts(self, name: str) -> None:
        """The value is there from the start of the region on."""
        self._levels[name] = len(self._heads) - 1

    def level(self, name: str) -> int:
        """Region at whose start the value is there; the present one, where it is not known."""
        return self._levels.get(name, len(self._heads))

    def early(self, text: str, *operands: str, hint: str = "x") -> str:
        """A value without effects, made once at the start of the outermost region in which its operands are known."""
        known = self.remembered(text)
        if known is not None:
            return known
        level = max(self.level(operand) for operand in operands)
        if level == len(self._heads):
            return self.remember(text, self.value(text, hint))
        result = self.name(hint)
        self._heads[level].append(f"  {result} = {text}")
        self._levels[result] = level
        return self._remember_at(text, result, level)

    def moving(self, pointer: str, index: str, step: int | str) -> str | None:
        """`pointer + index * step` bytes, carried from iteration to iteration; None where no open loop counts so.

        `step`: a number, or an SSA value.
        """
        loop = self._loops.get(index) if self._carried else None
        if loop is None or self.level(pointer) >= self.level(index):
            return None
        if isinstance(step, str) and self.level(step) >= self.level(index):
            return None
        key = ("moving", pointer, index, step)
        known = self.remembered(key)
        if known is not None:
            return known
        start = pointer
        if loop.first != "0":
            operands = (loop.first, step) if isinstance(step, str) else (loop.first,)
            distance = self.early(f"mul nsw i64 {loop.first}, {step}", *operands)
            start = self.early(
                f"getelementptr i8, ptr {pointer}, i64 {distance}", pointer, distance, hint="p"
            )
        moving = self.name("p")
        loop.streams.setdefault(step, []).append((moving, start))
        level = self._levels[moving] = self._levels[index]
        return self._remember_at(key, moving, level)

    def label(self, hint: str) -> str:
        """A fresh block label."""
        self._count += 1
        return f"{hint}{self._count}"

    def start_block(self, label: str) -> None:
        """Following instructions belong to this block."""
        self._slots.clear()
        self._constants.clear()
        self.lines.append(f"{label}:")
        self.block = label

    def branch(self, label: str) -> None:
        """Jump."""
        self._write_slots()
        self.emit(f"br label %{label}")

    def branch_if(self, condition: str, then: str, otherwise: str) -> None:
        """Jump to one of two blocks."""
        self._write_slots()
        self.emit(f"br i1 {condition}, label %{then}, label %{otherwise}")

    @contextmanager
    def where(self, condition: bool | str) -> Iterator[None]:  # noqa: FBT001  (it is what this is about)
        """What is emitted inside happens where the condition holds; one that is a value of its own needs a branch."""
        if not isinstance(condition, str):
            yield
            return
        inside, merge = self.label("inside"), self.label("merge")
        self.branch_if(condition, inside, merge)
        self.start_block(inside)
        with self.region():
            yield
        self.branch(merge)
        self.start_block(merge)

    @contextmanager
    def loop(self, first: str, stop: str, *, runs: bool) -> Iterator[str]:
        """`for i in first..stop`; yields i. `runs`: there is at least one iteration, so the first test is left out."""
        before, head, after = self.block, self.label("loop"), self.label("after")
        if runs:
            self.branch(head)
        else:
            self.branch_if(self.value(f"icmp slt i64 {first}, {stop}"), head, after)
        self.start_block(head)
        index, following, phi = self.name("i"), self.name("next"), len(self.lines)
        self.lines.append("")
        loop = self._loops[index] = _Loop(first)
        with self.region():
            self.starts(index)
            yield index
        del self._loops[index]
        moves = self._moves(loop, before, innermost=self.block == head)
        ended = self._ended(moves, first, stop) if not self._mentions(index, phi) else None
        if ended is None:
            moves.phis.insert(
                0, f"  {index} = phi i64 [ {first}, %{before} ], [ {following}, %{self.block} ]"
            )
            self.lines.append(f"  {following} = add nuw nsw i64 {index}, 1")
        self.lines[phi] = "\n".join(moves.phis + moves.pointers)
        self.lines += moves.steps
        self.branch_if(self.value(ended or f"icmp slt i64 {following}, {stop}"), head, after)
        self.start_block(after)

    def _mentions(self, name: str, since: int) -> bool:
        """Whether a line from there on has the name as an operand."""
        return any(re.search(rf"{re.escape(name)}\b", line) for line in self.lines[since:] if name in line)

    def _ended(self, moves: _Moves, first: str, stop: str) -> str | None:
        """The test whether a loop goes on, by where one of its pointers is; None where only its index tells."""
        if not (first.isdigit() and stop.isdigit()):
            return None
        for following, start, step in moves.ends:
            distance = (int(stop) - int(first)) * step
            if start == "null":
                return f"icmp ne ptr {following}, inttoptr (i64 {distance} to ptr)"
            if self.level(start) < len(self._heads):
                end = self.early(f"getelementptr i8, ptr {start}, i64 {distance}", start, hint="p")
                return f"icmp ne ptr {following}, {end}"
        return None

    def _moves(self, loop: _Loop, before: str, *, innermost: bool) -> _Moves:
        """The pointers that a loop carries: each by itself, or one offset for those that move alike."""
        moves = _Moves()
        for step, streams in loop.streams.items():
            if not (innermost and self._indexed and len(streams) >= _OFFSET_NEEDS):
                for pointer, start in streams:
                    self._carry(moves, pointer, start, step, before)
                continue
            offset, distance = self.name("o"), self.name("o")
            self._carry(moves, offset, "null", step, before)
            moves.pointers.append(f"  {distance} = ptrtoint ptr {offset} to i64")
            moves.pointers += [
                f"  {p} = getelementptr i8, ptr {start}, i64 {distance}" for p, start in streams
            ]
        return moves

    def _carry(self, moves: _Moves, pointer: str, start: str, step: int | str, before: str) -> None:
        self.declarations.add(f"declare ptr {_SAME}(ptr)")
        same, following = self.name("same"), self.name("next")
        moves.phis.append(f"  {pointer} = phi ptr [ {start}, %{before} ], [ {following}, %{self.block} ]")
        moves.steps += [
            f"  {same} = call ptr {_SAME}(ptr {pointer})",
            f"  {following} = getelementptr i8, ptr {same}, i64 {step}",
        ]
        if isinstance(step, int) and step:
            moves.ends.append((following, start, step))
