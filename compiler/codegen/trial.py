"""The program around one kernel that is measured: it finds everything in the table, so that one serves many kernels.

    void  program(team, table, id, size)    the share of member `id` of `size`

The table holds the kernel's pointers, the values of its symbols, and for each phase the function's address and the
extent of its parallel loop. As in compiler.codegen.program, members meet at a barrier between phases and compute static
shares.
"""

from __future__ import annotations


def emit_trial(pointers: int, symbols: int, phases: int) -> str:
    """IR of the program for kernels with so many pointers, symbols and phases."""
    lines = [
        "declare void @team_barrier(ptr, i64)",
        "",
        "define void @program(ptr %team, ptr %table, i64 %id, i64 %size) {",
    ]
    arguments = []
    for slot in range(pointers):
        lines += _load(f"%p{slot}", "ptr", slot)
        arguments.append(f"ptr %p{slot}")
    for slot in range(pointers, pointers + symbols):
        lines += _load(f"%p{slot}", "i64", slot)
        arguments.append(f"i64 %p{slot}")
    for phase in range(phases):
        slot = pointers + symbols + 2 * phase
        if phase:
            lines.append("  call void @team_barrier(ptr %team, i64 %id)")
        lines += [
            *_load(f"%f{phase}", "ptr", slot),
            *_load(f"%n{phase}", "i64", slot + 1),
            f"  %b{phase}.n = mul i64 %n{phase}, %id",
            f"  %b{phase} = udiv i64 %b{phase}.n, %size",
            f"  %e{phase}.n = add i64 %b{phase}.n, %n{phase}",
            f"  %e{phase} = udiv i64 %e{phase}.n, %size",
            f"  call void %f{phase}({', '.join([*arguments, f'i64 %b{phase}', f'i64 %e{phase}'])})",
        ]
    return "\n".join([*lines, "  ret void", "}", ""])


def _load(name: str, kind: str, slot: int) -> list[str]:
    return [
        f"  {name}.p = getelementptr i64, ptr %table, i64 {slot}",
        f"  {name} = load {kind}, ptr {name}.p, align 8",
    ]
