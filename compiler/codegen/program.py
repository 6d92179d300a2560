"""The program around the kernels: a function for its phases, which the team (`team_run`) calls in order.

    i64   program_phases()
    void  program_phase(table, phase, share, shares)

`table` is an array of pointers; each Call names the slots that hold its buffers, and those that hold the values of its
symbols (as numbers: a static program has none). A share is a range of the phase's parallel loop; all that are not
empty may be computed at the same time, and none of the next phase before all of this one.

A program that is profiled also writes nanoseconds of the system's monotonic clock into an array that the table points
to, i64 stamps[shares][calls][2]: when each share of a Call began, and when it ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from compiler.codegen.clear import CLEAR, Clear, emit_clears
from compiler.codegen.emitter import Emitter
from compiler.codegen.indices import Indices
from compiler.codegen.kernel import Kernel
from compiler.codegen.llvm import PROGRAM_LEVEL, emit_object
from compiler.index import Index
from compiler.symbol import Size
from compiler.target import Target


@dataclass(frozen=True, slots=True)
class Call:
    """One phase of a kernel.

    Attributes:
        symbol: name of the function.
        slots: the table's slot of each pointer.
        parallel_extent: of the loop that is shared out, over the names in `sizes`.
        sizes: the table's slot of each of the kernel's symbols, in the kernel's order.
        clears: what is set to zero beside it; the kernel neither reads nor writes it.
    """

    symbol: str
    slots: tuple[int, ...]
    parallel_extent: Size
    sizes: tuple[tuple[str, int], ...] = ()
    clears: tuple[Clear, ...] = ()


def phase_calls(kernel: Kernel, slots: tuple[int, ...], clears: tuple[Clear, ...] = ()) -> tuple[Call, ...]:
    """The Calls that run a kernel once; `slots`: of its pointers, then of its symbols. The first phase clears."""
    count = len(kernel.params)
    sizes = tuple(zip(kernel.symbols, slots[count:], strict=True))
    return tuple(
        Call(phase.symbol, slots[:count], phase.parallel_extent, sizes, () if i else clears)
        for i, phase in enumerate(kernel.phases)
    )


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
    cases = " ".join(f"i64 {number}, label %call{number}" for number in range(len(calls)))
    lines = [
        "define i64 @program_phases() {",
        f"  ret i64 {len(calls)}",
        "}",
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
    for number, call in enumerate(calls):
        lines.append(f"call{number}:")
        sizes = {name: f"%n{number}.{place}" for place, (name, _) in enumerate(call.sizes)}
        for name, slot in call.sizes:
            lines.append(f"  {sizes[name]}.p = getelementptr i64, ptr %table, i64 {slot}")
            lines.append(f"  {sizes[name]} = load i64, ptr {sizes[name]}.p, align 8")
        lines += _share(number, call.parallel_extent, sizes)
        arguments = []
        for place, slot in enumerate(call.slots):
            name = f"%k{number}.{place}"
            lines.append(f"  {name}.p = getelementptr ptr, ptr %table, i64 {slot}")
            lines.append(f"  {name} = load ptr, ptr {name}.p")
            arguments.append(f"ptr {name}")
        arguments += [f"i64 {size}" for size in (*sizes.values(), f"%begin{number}", f"%end{number}")]
        run = [*emit_clears(number, call.clears), f"  call void @{call.symbol}({', '.join(arguments)})"]
        lines += run if stamps is None else [*_stamp(2 * number), *run, *_stamp(2 * number + 1)]
        lines.append("  ret void")
    return "\n".join([*lines, "none:", "  ret void", "}", ""])


def _stamp(place: int) -> list[str]:
    return [
        f"  %stamp{place} = add i64 %stamps.own, {place}",
        f"  call void @stamp(ptr %stamps, i64 %stamp{place})",
    ]


def _types(call: Call) -> list[str]:
    return ["ptr"] * len(call.slots) + ["i64"] * (len(call.sizes) + 2)


def _share(number: int, size: Size, values: Mapping[str, str]) -> list[str]:
    """Share `id` of `size` is extent*id/size .. extent*(id+1)/size; `values`: SSA name of each symbol."""
    out = Emitter(prefix=f"share{number}.")
    indices = Indices(out)
    with ExitStack() as stack:
        for name, ssa in values.items():
            stack.enter_context(indices.variable(name, ssa))
        extent = indices.number(indices.linear(Index.of(size)), 0)
    return [
        *out.lines,
        f"  %b{number}.n = mul i64 {extent}, %id",
        f"  %begin{number} = udiv i64 %b{number}.n, %size",
        f"  %e{number}.n = add i64 %b{number}.n, {extent}",
        f"  %end{number} = udiv i64 %e{number}.n, %size",
    ]
