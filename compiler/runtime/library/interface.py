"""The functions that a shared library shows, in LLVM IR; the header says what they do (header.py here).

i32  NAME_create(i32 threads, ptr context)      context: one block of memory, see `_Layout`
i32  NAME_run(ptr context, ptr inputs, ptr outputs)
void NAME_destroy(ptr context)
ptr  NAME_error(i32 code)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compiler.codegen.cpu_check import emit_cpu_check
from compiler.codegen.team import SIZE_OFFSET, team_bytes
from compiler.runtime.image import Image
from compiler.runtime.library.shared import CONSTANTS
from compiler.workload.program import ALIGNMENT

FUNCTIONS = ("create", "run", "destroy", "error")
MAX_THREADS = 1024

ERRORS = (
    ("OK", "no error"),
    ("ARGUMENT", "an argument is null, or the number of threads is out of range"),
    ("CPU", "this CPU, or the operating system, lacks instructions that the model was compiled for"),
    ("MEMORY", "there is not enough memory"),
    ("THREADS_REFUSED", "the system gives no more threads"),
)
"""Name and text of each code, from 0."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """Offsets in a context: table of pointers, zeroed memory, arena, team (its size is known when it runs)."""

    zeroed: int
    arena: int
    team: int

    @classmethod
    def of(cls, image: Image) -> _Layout:
        zeroed = _up(8 * len(image.slots))
        arena = zeroed + _up(image.zeroed_bytes)
        return cls(zeroed, arena, arena + _up(image.arena_bytes))


def emit_interface(image: Image, name: str, constants: Sequence[int]) -> str:
    """IR of all functions; `constants`: offset of each of the Image's constants in the library's."""
    layout = _Layout.of(image)
    return "\n".join(
        [
            f"@{CONSTANTS} = external constant i8",
            *_texts(),
            "declare ptr @aligned_alloc(i64, i64)",
            "declare void @free(ptr)",
            "declare ptr @memset(ptr, i32, i64)",
            "declare i32 @team_start(ptr)",
            "declare void @team_stop(ptr)",
            "declare void @program_run(ptr, ptr)",
            emit_cpu_check(image.target),
            *_create(image, name, layout, constants),
            *_run(image, name, layout),
            *_destroy(name, layout),
            *_error(name),
            "",
        ]
    )


def _create(image: Image, name: str, layout: _Layout, constants: Sequence[int]) -> list[str]:
    code = {key: number for number, (key, _) in enumerate(ERRORS)}
    one_member = team_bytes(1) - team_bytes(0)
    lines = [
        f"define i32 @{name}_create(i32 %asked, ptr %result) {{",
        "entry:",
        "  %fits = call i1 @cpu_fits()",
        "  br i1 %fits, label %arguments, label %done",
        "arguments:",
        "  %null = icmp eq ptr %result, null",
        "  %default = icmp eq i32 %asked, 0",
        f"  %threads = select i1 %default, i32 {image.threads}, i32 %asked",
        # As unsigned numbers, those below 0 are too large as well.
        f"  %many = icmp ugt i32 %threads, {MAX_THREADS}",
        "  %bad = or i1 %null, %many",
        "  br i1 %bad, label %done, label %allocate",
        "allocate:",
        "  %threads64 = zext i32 %threads to i64",
        f"  %members = mul i64 %threads64, {one_member}",
        f"  %raw = add i64 %members, {layout.team + team_bytes(0) + ALIGNMENT - 1}",
        f"  %size = and i64 %raw, -{ALIGNMENT}",
        f"  %context = call ptr @aligned_alloc(i64 {ALIGNMENT}, i64 %size)",
        "  %none = icmp eq ptr %context, null",
        "  br i1 %none, label %done, label %fill",
        "fill:",
        f"  %z = call ptr @memset(ptr %context, i32 0, i64 {layout.arena})",
        f"  %team = getelementptr i8, ptr %context, i64 {layout.team}",
        f"  %state = add i64 %members, {team_bytes(0)}",
        "  %t = call ptr @memset(ptr %team, i32 0, i64 %state)",
        f"  %size.p = getelementptr i8, ptr %team, i64 {SIZE_OFFSET}",
        "  store i32 %threads, ptr %size.p, align 4",
    ]
    bases = {
        "arena": ("%context", layout.arena),
        "zeroed": ("%context", layout.zeroed),
        "constant": (f"@{CONSTANTS}", 0),
    }
    for number, slot in enumerate(image.slots):
        if slot.kind in bases:
            base, start = bases[slot.kind]
            offset = start + (constants[slot.where] if slot.kind == "constant" else slot.where)
            lines += [
                f"  %v{number} = getelementptr i8, ptr {base}, i64 {offset}",
                f"  %s{number} = getelementptr ptr, ptr %context, i64 {number}",
                f"  store ptr %v{number}, ptr %s{number}, align 8",
            ]
    return [
        *lines,
        "  %failed = call i32 @team_start(ptr %team)",
        "  %refused = icmp ne i32 %failed, 0",
        "  br i1 %refused, label %undo, label %made",
        "undo:",
        "  call void @team_stop(ptr %team)",
        "  call void @free(ptr %context)",
        "  br label %done",
        "made:",
        "  store ptr %context, ptr %result, align 8",
        f"  ret i32 {code['OK']}",
        "done:",
        f"  %code = phi i32 [ {code['CPU']}, %entry ], [ {code['ARGUMENT']}, %arguments ], "
        f"[ {code['MEMORY']}, %allocate ], [ {code['THREADS_REFUSED']}, %undo ]",
        "  ret i32 %code",
        "}",
    ]


def _run(image: Image, name: str, layout: _Layout) -> list[str]:
    code = {key: number for number, (key, _) in enumerate(ERRORS)}
    ports = [
        (f"%{array}{where}", array, where)
        for array, specs in (("inputs", image.inputs), ("outputs", image.outputs))
        for where in range(len(specs))
    ]
    lines = [f"define i32 @{name}_run(ptr %context, ptr %inputs, ptr %outputs) {{", "entry:"]
    lines += _refuse_null("%context") + _refuse_null("%inputs") + _refuse_null("%outputs")
    for value, array, where in ports:
        lines += [
            f"  {value}.p = getelementptr ptr, ptr %{array}, i64 {where}",
            f"  {value} = load ptr, ptr {value}.p, align 8",
            *_refuse_null(value),
        ]
    for number, slot in enumerate(image.slots):
        if slot.kind in ("input", "output"):
            lines += [
                f"  %s{number} = getelementptr ptr, ptr %context, i64 {number}",
                f"  store ptr %{slot.kind}s{slot.where}, ptr %s{number}, align 8",
            ]
    return [
        *lines,
        f"  %team = getelementptr i8, ptr %context, i64 {layout.team}",
        "  call void @program_run(ptr %team, ptr %context)",
        f"  ret i32 {code['OK']}",
        "refuse:",
        f"  ret i32 {code['ARGUMENT']}",
        "}",
    ]


def _refuse_null(value: str) -> list[str]:
    label = value.removeprefix("%")
    return [
        f"  {value}.null = icmp eq ptr {value}, null",
        f"  br i1 {value}.null, label %refuse, label %{label}.ok",
        f"{label}.ok:",
    ]


def _destroy(name: str, layout: _Layout) -> list[str]:
    return [
        f"define void @{name}_destroy(ptr %context) {{",
        "entry:",
        "  %null = icmp eq ptr %context, null",
        "  br i1 %null, label %done, label %end",
        "end:",
        f"  %team = getelementptr i8, ptr %context, i64 {layout.team}",
        "  call void @team_stop(ptr %team)",
        "  call void @free(ptr %context)",
        "  br label %done",
        "done:",
        "  ret void",
        "}",
    ]


_UNKNOWN = "not an error code of this library"


def _texts() -> list[str]:
    texts = [*(text for _, text in ERRORS), _UNKNOWN]
    return [
        f'@text{number} = internal constant [{len(text) + 1} x i8] c"{text}\\00"'
        for number, text in enumerate(texts)
    ]


def _error(name: str) -> list[str]:
    lines = [f"define ptr @{name}_error(i32 %code) {{", "entry:"]
    last = f"@text{len(ERRORS)}"
    for number in range(len(ERRORS)):
        lines += [
            f"  %is{number} = icmp eq i32 %code, {number}",
            f"  %t{number} = select i1 %is{number}, ptr @text{number}, ptr {last}",
        ]
        last = f"%t{number}"
    return [*lines, f"  ret ptr {last}", "}"]


def _up(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
