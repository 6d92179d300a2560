"""The program around the kernels: a function for its phases, which the team (`team_run`) calls in order.

    i64   program_phases()
    i64   program_pieces(table, phase, shares)
    void  program_phase(table, phase, share, shares)
    i1    program_is_small(table)

`table` is an array of pointers; each Call names the slots that hold its buffers, and those that hold the values of its
symbols (as numbers: a static program has none). A share is a range of the phase's parallel loop; all that are not
empty may be computed at the same time, and none of the next phase before all of this one. The share of a member may be
cut into pieces, which are as many times smaller shares: where there is enough work, so that slower cores do less of it.

Calls that have no parallel loop, or less work than a team is worth waking for, are not shared out. Those that follow
each other are one phase, of which share 0 does everything. Where all that is shared out, for the sizes in the table,
takes one core no longer than it takes a team to wait for each other, and to pass on to share 0 what all have made, the
program is small: its caller runs it alone.

A program that is profiled also writes nanoseconds of the system's monotonic clock into an array that the table points
to, i64 stamps[shares][calls][2]: when each share of a Call began, and when it ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from compiler.codegen.clear import CLEAR, Clear, emit_clears
from compiler.codegen.emitter import Emitter
from compiler.codegen.indices import Indices
from compiler.codegen.kernel import Kernel
from compiler.codegen.llvm import PROGRAM_LEVEL, emit_object
from compiler.index import Index
from compiler.symbol import Size, as_size
from compiler.target import Target
from compiler.workload.work import Work

SMALL = 1 << 17
"""Work that one thread has done by the time two have shared it: about two thirds of a microsecond."""
OF_A_PROGRAM = 5
"""So many times that are what it takes to begin a program, and to end it."""
PIECE, MOST_PIECES = 1 << 21, 8
"""Work of a piece, at least, which takes about five microseconds; and pieces of a share, at most."""
_PASSED = 64
"""Work that one thread has done by the time two have passed on a byte between what is shared out and what is not."""


@dataclass(frozen=True, slots=True)
class Call:
    """One phase of a kernel.

    Attributes:
        symbol: name of the function.
        slots: the table's slot of each pointer.
        parallel_extent: of the loop that is shared out, over the names in `sizes`.
        work: of its kernel, over the same names.
        sizes: the table's slot of each of the kernel's symbols, in the kernel's order.
        moved: bytes that are read or written behind each pointer; none of constants.
        clears: what is set to zero beside it; the kernel neither reads nor writes it.
    """

    symbol: str
    slots: tuple[int, ...]
    parallel_extent: Size
    work: Work
    sizes: tuple[tuple[str, int], ...] = ()
    moved: tuple[Size, ...] = ()
    clears: tuple[Clear, ...] = ()

    @property
    def is_shared(self) -> bool:
        """Whether it is for all members of a team, whatever the sizes are, or for some sizes."""
        work = self.work.far
        return self.parallel_extent != 1 and not (isinstance(work, int) and work <= SMALL)


def phase_calls(
    kernel: Kernel, slots: tuple[int, ...], work: Work, clears: tuple[Clear, ...] = ()
) -> tuple[Call, ...]:
    """The Calls that run a kernel once; `slots`: of its pointers, then of its symbols. The first phase clears."""
    count = len(kernel.params)
    sizes = tuple(zip(kernel.symbols, slots[count:], strict=True))
    moved = tuple(work.moved.get(p.name, 0) for p in kernel.params)
    whole = all(phase.parallel_extent == 1 for phase in kernel.phases)
    found = []
    for phase in kernel.phases:
        # Phases that have no parallel loop, beside others that do, move next to nothing.
        own = moved if whole or phase.parallel_extent != 1 else ()
        found.append(Call(phase.symbol, slots[:count], phase.parallel_extent, work, sizes, own, clears))
        clears = ()
    return tuple(found)


def program_object(calls: tuple[Call, ...], target: Target, stamps: int | None = None) -> bytes:
    """The program's machine code; see `emit_program`."""
    return emit_object(emit_program(calls, stamps), target, PROGRAM_LEVEL)


def emit_program(calls: tuple[Call, ...], stamps: int | None = None) -> str:
    """The program's IR module; `stamps`: the table's slot of the array of times, where it is profiled."""
    declared = {f"declare void @{c.symbol}({', '.join(_types(c))})" for c in calls}
    helpers = [CLEAR] if any(call.clears for call in calls) else []
    helpers += [] if stamps is None else [_CLOCK]
    return "\n".join([*sorted(declared), *helpers, _program(calls, stamps)])


_CLOCK = """declare i32 @clock_gettime(i32, ptr)

define internal void @stamp(ptr %stamps, i64 %place) noinline {
  %t = alloca [2 x i64], align 8
  %r = call i32 @clock_gettime(i32 1, ptr %t)
  %s = load i64, ptr %t, align 8
  %n.p = getelementptr i8, ptr %t, i64 8
  %n = load i64, ptr %n.p, align 8
  %s.n = mul i64 %s, 1000000000
  %now = add i64 %s.n, %n
  %at = getelementptr i64, ptr %stamps, i64 %place
  store i64 %now, ptr %at, align 8
  ret void
}
"""


def _program(calls: tuple[Call, ...], stamps: int | None) -> str:
    phases = [list(some) for _, some in groupby(enumerate(calls), key=_phase_of)]
    cases = " ".join(f"i64 {number}, label %phase{number}" for number in range(len(phases)))
    lines = [
        "define i64 @program_phases() {",
        f"  ret i64 {len(phases)}",
        "}",
        "",
        *_pieces(phases, profiled=stamps is not None),
        "",
        *_is_small(calls),
        "",
        "define void @program_phase(ptr %table, i64 %phase, i64 %id, i64 %size) {",
        "entry:",
    ]
    if stamps is not None:
        lines += [
            f"  %stamps.p = getelementptr ptr, ptr %table, i64 {stamps}",
            "  %stamps = load ptr, ptr %stamps.p",
            f"  %stamps.own = mul i64 %id, {2 * len(calls)}",
        ]
    lines.append(f"  switch i64 %phase, label %none [ {cases} ]")
    for number, phase in enumerate(phases):
        lines.append(f"phase{number}:")
        share, shares = "%id", "%size"
        if not phase[0][1].is_shared:
            share, shares = "0", "1"
            lines += [
                f"  %first{number} = icmp eq i64 %id, 0",
                f"  br i1 %first{number}, label %alone{number}, label %none",
                f"alone{number}:",
            ]
        for place, call in phase:
            run = _call(place, call, share, shares)
            lines += run if stamps is None else [*_stamp(2 * place), *run, *_stamp(2 * place + 1)]
        lines.append("  ret void")
    return "\n".join([*lines, "none:", "  ret void", "}", ""])


def _phase_of(numbered: tuple[int, Call]) -> int:
    """What Calls of one phase have in common: nothing but that neither is shared."""
    number, call = numbered
    return number if call.is_shared else -1


def _pieces(phases: Sequence[Sequence[tuple[int, Call]]], *, profiled: bool) -> list[str]:
    """The function that says in how many pieces a share is taken; times are kept of whole shares."""
    lines, cases = [], []
    for number, phase in enumerate(phases):
        place, call = phase[0]
        if profiled or not call.is_shared:
            continue
        sizes = _sizes(place, call)
        work, near = _number(f"near{number}.", call.work.near, sizes.names)
        if isinstance(near, int) and near < 2 * 2 * PIECE:
            continue  # two members, two pieces each
        cases.append(f"i64 {number}, label %phase{number}")
        lines += [f"phase{number}:", *sizes.lines, *work]
        lines += [
            f"  %count{number} = udiv i64 {near}, %least",
            f"  %few{number} = call i64 @llvm.umin.i64(i64 %count{number}, i64 {MOST_PIECES})",
            f"  %pieces{number} = call i64 @llvm.umax.i64(i64 %few{number}, i64 1)",
            f"  ret i64 %pieces{number}",
        ]
    return [
        "declare i64 @llvm.umin.i64(i64, i64)",
        "declare i64 @llvm.umax.i64(i64, i64)",
        "",
        "define i64 @program_pieces(ptr %table, i64 %phase, i64 %shares) {",
        f"  %least = mul i64 %shares, {PIECE}",
        f"  switch i64 %phase, label %none [ {' '.join(cases)} ]",
        *lines,
        "none:",
        "  ret i64 1",
        "}",
    ]


def _is_small(calls: Sequence[Call]) -> list[str]:
    """The function that says whether there is too little to share for the sizes in the table."""
    shared = [call for call in calls if call.is_shared]
    known = {slot for call in shared for slot in call.slots}
    lines, saved, lost = [], "0", f"{SMALL * (len(shared) + OF_A_PROGRAM)}"
    for number, call in enumerate(calls):
        sizes = _sizes(number, call)
        if call.is_shared:
            work, near = _number(f"near{number}.", call.work.near, sizes.names)
            lines += [*sizes.lines, *work, f"  %saved{number} = add i64 {saved}, {near}"]
            saved = f"%saved{number}"
            continue
        passed = [Index.of(n) for slot, n in zip(call.slots, call.moved, strict=False) if slot in known]
        if passed:
            work, cost = _number(f"lost{number}.", as_size(sum(passed, Index()) * _PASSED), sizes.names)
            lines += [*sizes.lines, *work, f"  %lost{number} = add i64 {lost}, {cost}"]
            lost = f"%lost{number}"
    return [
        "define i1 @program_is_small(ptr %table) {",
        *lines,
        f"  %small = icmp ule i64 {saved}, {lost}",
        "  ret i1 %small",
        "}",
    ]


def _call(number: int, call: Call, share: str, shares: str) -> list[str]:
    """One Call; `share`, `shares`: SSA values or numbers."""
    sizes = _sizes(number, call)
    lines = [*sizes.lines, *_share(number, call.parallel_extent, sizes.names, share, shares)]
    arguments = []
    for place, slot in enumerate(call.slots):
        name = f"%k{number}.{place}"
        lines.append(f"  {name}.p = getelementptr ptr, ptr %table, i64 {slot}")
        lines.append(f"  {name} = load ptr, ptr {name}.p")
        arguments.append(f"ptr {name}")
    arguments += [f"i64 {size}" for size in (*sizes.names.values(), f"%begin{number}", f"%end{number}")]
    clears = emit_clears(number, call.clears, share, shares)
    return [*lines, *clears, f"  call void @{call.symbol}({', '.join(arguments)})"]


class _Sizes(NamedTuple):
    """SSA names of a Call's symbols, and the lines that load them."""

    names: dict[str, str]
    lines: list[str]


def _sizes(number: int, call: Call) -> _Sizes:
    found = _Sizes({}, [])
    for place, (name, slot) in enumerate(call.sizes):
        found.names[name] = ssa = f"%n{number}.{place}"
        found.lines.append(f"  {ssa}.p = getelementptr i64, ptr %table, i64 {slot}")
        found.lines.append(f"  {ssa} = load i64, ptr {ssa}.p, align 8")
    return found


def _stamp(place: int) -> list[str]:
    return [
        f"  %stamp{place} = add i64 %stamps.own, {place}",
        f"  call void @stamp(ptr %stamps, i64 %stamp{place})",
    ]


def _types(call: Call) -> list[str]:
    return ["ptr"] * len(call.slots) + ["i64"] * (len(call.sizes) + 2)


def _number(prefix: str, size: Size, names: Mapping[str, str]) -> tuple[list[str], int | str]:
    """A size, and the lines that compute it; `names`: the SSA name of each symbol."""
    out = Emitter(prefix=prefix)
    indices = Indices(out)
    with ExitStack() as stack:
        for name, ssa in names.items():
            stack.enter_context(indices.variable(name, ssa))
        number = indices.number(indices.linear(Index.of(size)), 0)
    return out.lines, number


def _share(number: int, size: Size, names: Mapping[str, str], share: str, shares: str) -> list[str]:
    """Share i of n is extent*i/n .. extent*(i+1)/n."""
    lines, extent = _number(f"share{number}.", size, names)
    return [
        *lines,
        f"  %b{number}.n = mul i64 {extent}, {share}",
        f"  %begin{number} = udiv i64 %b{number}.n, {shares}",
        f"  %e{number}.n = add i64 %b{number}.n, {extent}",
        f"  %end{number} = udiv i64 %e{number}.n, {shares}",
    ]
