"""Emitter: LLVM IR as text, one function at a time.

Text is several times faster to make than an object per instruction, and LLVM parses a kernel in under a millisecond.
Values made in an enclosing region are remembered, so that unrolled copies share loads, addresses and broadcasts.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager


class Emitter:
    """Collects the body of one function."""

    def __init__(self, prefix: str = "") -> None:
        """Start in the entry block; `prefix`: of all names, where several emitters write one function."""
        self._prefix = prefix
        self.lines: list[str] = []
        self.allocas: list[str] = []
        self.declarations: set[str] = set()
        self.block = "entry"
        self._count = 0
        self._known: list[dict[Hashable, str]] = [{}]
        self._slots: dict[str, str] = {}
        self._unwritten: dict[str, str] = {}

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
        self._unwritten[slot] = f"store {llvm_type} {value}, ptr {slot}, align {align}"

    def _write_slots(self) -> None:
        for store in self._unwritten.values():
            self.emit(store)
        self._unwritten.clear()

    def remembered(self, key: Hashable) -> str | None:
        """The value that this or an enclosing region made for the key."""
        for region in reversed(self._known):
            found = region.get(key)
            if found is not None:
                return found
        return None

    def remember(self, key: Hashable, value: str) -> str:
        """Remember a value until the region ends."""
        self._known[-1][key] = value
        return value

    @contextmanager
    def region(self) -> Iterator[None]:
        """A loop body or branch: what is remembered inside is forgotten after it."""
        self._known.append({})
        try:
            yield
        finally:
            self._known.pop()

    def label(self, hint: str) -> str:
        """A fresh block label."""
        self._count += 1
        return f"{hint}{self._count}"

    def start_block(self, label: str) -> None:
        """Following instructions belong to this block."""
        self._slots.clear()
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
        with self.region():
            yield index
        self.emit(f"{following} = add nuw nsw i64 {index}, 1")
        self.lines[phi] = f"  {index} = phi i64 [ {first}, %{before} ], [ {following}, %{self.block} ]"
        self.branch_if(self.value(f"icmp slt i64 {following}, {stop}"), head, after)
        self.start_block(after)
