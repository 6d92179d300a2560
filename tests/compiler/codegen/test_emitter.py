"""Loops in LLVM IR: what they count by, and how their pointers move."""

from __future__ import annotations

import re

import pytest

from compiler.codegen.emitter import Emitter


def loop(*pointers: str, indexed: bool, stop: str = "12", index_used: bool = False) -> str:
    """A loop that stores 1 behind each pointer, 64 bytes further each time."""
    out = Emitter(indexed=indexed)
    for pointer in pointers:
        out.starts(pointer)
    with out.loop("0", stop, runs=True) as index:
        for pointer in pointers:
            out.emit(f"store i64 {index if index_used else 1}, ptr {out.moving(pointer, index, 64)}, align 8")
    return "\n".join([*out.head, *out.lines])


def phis(text: str) -> list[str]:
    return re.findall(r"phi (\w+)", text)


def test_a_pointer_tells_the_end_where_the_index_is_not_used() -> None:
    text = loop("%a", indexed=False)
    assert phis(text) == ["ptr"]
    assert "getelementptr i8, ptr %a, i64 768" in text
    assert "icmp ne ptr" in text


@pytest.mark.parametrize(
    ("stop", "index_used"), [("%n", False), ("12", True)], ids=["how far is not known", "used"]
)
def test_else_the_index_counts(stop: str, *, index_used: bool) -> None:
    text = loop("%a", indexed=False, stop=stop, index_used=index_used)
    assert sorted(phis(text)) == ["i64", "ptr"]
    assert "icmp slt i64" in text


def test_pointers_that_move_alike_share_an_offset_where_that_costs_nothing() -> None:
    assert len(phis(loop("%a", "%b", "%c", indexed=False))) == 3
    text = loop("%a", "%b", "%c", indexed=True)
    assert phis(text) == ["ptr"]
    assert text.count("= getelementptr i8, ptr %") == 4, "three addresses, and the offset's next value"
    assert len(phis(loop("%a", indexed=True))) == 1


def test_pointers_of_a_loop_around_another_move_each_by_itself() -> None:
    out = Emitter(indexed=True)
    for pointer in ("%a", "%b"):
        out.starts(pointer)
    with out.loop("0", "4", runs=True) as outer:
        moved = [out.moving(pointer, outer, 4096) or "" for pointer in ("%a", "%b")]
        with out.loop("0", "12", runs=True) as inner:
            for pointer in moved:
                out.emit(f"store i64 1, ptr {out.moving(pointer, inner, 64)}, align 8")
    text = "\n".join(out.lines)
    assert phis(text) == ["ptr"] * 3, "one offset inside, two pointers around it"
