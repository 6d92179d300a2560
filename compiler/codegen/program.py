"""The program around the kernels: one function that calls them in order, for every member of a team alike.

    void  program(team, table, id, size)    the share of member `id` of `size`

`table` is an array of pointers; each Call names the slots that hold its buffers. The team enters the whole program
together and meets at a barrier after each kernel (SPMD); every member computes its static share of the parallel loop.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.codegen.kernel import Kernel


@dataclass(frozen=True, slots=True)
class Call:
    """One phase of a kernel: its symbol, the table's slot of each pointer, and its parallel extent."""

    symbol: str
    slots: tuple[int, ...]
    parallel_extent: int


def phase_calls(kernel: Kernel, slots: tuple[int, ...]) -> tuple[Call, ...]:
    """The Calls that run a kernel once."""
    return tuple(Call(kernel.phase_symbol(i), slots, n) for i, n in enumerate(kernel.parallel_extents))


def emit_program(calls: tuple[Call, ...]) -> str:
    """The program's IR module."""
    declared = {f"declare void @{c.symbol}({', '.join(['ptr'] * len(c.slots))}, i64, i64)" for c in calls}
    return "\n".join([*sorted(declared), "declare void @team_barrier(ptr)", _program(calls)])


def _program(calls: tuple[Call, ...]) -> str:
    lines = ["define void @program(ptr %team, ptr %table, i64 %id, i64 %size) {", "entry:"]
    for number, call in enumerate(calls):
        if number:
            lines.append("  call void @team_barrier(ptr %team)")
        lines += _share(number, call.parallel_extent)
        arguments = []
        for place, slot in enumerate(call.slots):
            name = f"%k{number}.{place}"
            lines.append(f"  {name}.p = getelementptr ptr, ptr %table, i64 {slot}")
            lines.append(f"  {name} = load ptr, ptr {name}.p")
            arguments.append(f"ptr {name}")
        arguments += [f"i64 %begin{number}", f"i64 %end{number}"]
        lines.append(f"  call void @{call.symbol}({', '.join(arguments)})")
    return "\n".join([*lines, "  ret void", "}", ""])


def _share(number: int, extent: int) -> list[str]:
    """Member `id` of `size` computes extent*id/size .. extent*(id+1)/size."""
    return [
        f"  %b{number}.n = mul i64 {extent}, %id",
        f"  %begin{number} = udiv i64 %b{number}.n, %size",
        f"  %e{number}.n = add i64 %b{number}.n, {extent}",
        f"  %end{number} = udiv i64 %e{number}.n, %size",
    ]
