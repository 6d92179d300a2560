"""Driving memory out of every cache of this machine, as what lies between two runs of a network does.

void  evict(first, bytes)
"""

from __future__ import annotations

from compiler.target import LINE_BYTES, Target

_FLUSH = {True: "llvm.x86.clflushopt", False: "llvm.x86.sse2.clflush"}
"""By whether the CPU flushes several lines at a time."""


def emit_evict(target: Target) -> str | None:
    """The IR module; None where programs have no instruction for it."""
    if target.instruction_set != "x86_64":
        return None
    flush = _FLUSH["clflushopt" in target.features]
    return f"""declare void @{flush}(ptr)

define void @evict(ptr %first, i64 %bytes) {{
entry:
  br label %loop
loop:
  %at = phi i64 [ 0, %entry ], [ %next, %loop ]
  %line = getelementptr i8, ptr %first, i64 %at
  call void @{flush}(ptr %line)
  %next = add i64 %at, {LINE_BYTES}
  %more = icmp slt i64 %next, %bytes
  br i1 %more, label %loop, label %done
done:
  fence seq_cst
  ret void
}}
"""
