"""The program around one kernel that is measured: it finds everything in the table, so that one serves many kernels.

    i64   program_phases()
    i64   program_pieces(table, phase, shares)
    void  program_phase(table, phase, share, shares)
    i1    program_is_small(table)

The table holds the kernel's pointers, the values of its symbols, and for each phase the function's address and the
extent of its parallel loop. It is never small: what is measured is shared out. As in compiler.codegen.program, a share
is a range of that loop.
"""

from __future__ import annotations


def emit_trial(pointers: int, symbols: int, phases: int) -> str:
    """IR of the program for kernels with so many pointers, symbols and phases."""
    lines = [
        "define i64 @program_phases() {",
        f"  ret i64 {phases}",
        "}",
        "",
        "define i64 @program_pieces(ptr %table, i64 %phase, i64 %shares) {",
        "  ret i64 1",
        "}",
        "",
        "define i1 @program_is_small(ptr %table) {",
        "  ret i1 false",
        "}",
        "",
        "define void @program_phase(ptr %table, i64 %phase, i64 %share, i64 %shares) {",
        "  %pair = mul i64 %phase, 2",
        f"  %f.slot = add i64 %pair, {pointers + symbols}",
        "  %n.slot = add i64 %f.slot, 1",
        *_load("%f", "ptr", "%f.slot"),
        *_load("%n", "i64", "%n.slot"),
        "  %b.n = mul i64 %n, %share",
        "  %begin = udiv i64 %b.n, %shares",
        "  %e.n = add i64 %b.n, %n",
        "  %end = udiv i64 %e.n, %shares",
    ]
    arguments = []
    for slot in range(pointers + symbols):
        kind = "ptr" if slot < pointers else "i64"
        lines += _load(f"%p{slot}", kind, slot)
        arguments.append(f"{kind} %p{slot}")
    arguments += ["i64 %begin", "i64 %end"]
    return "\n".join([*lines, f"  call void %f({', '.join(arguments)})", "  ret void", "}", ""])


def _load(name: str, kind: str, slot: int | str) -> list[str]:
    return [
        f"  {name}.p = getelementptr i64, ptr %table, i64 {slot}",
        f"  {name} = load {kind}, ptr {name}.p, align 8",
    ]
