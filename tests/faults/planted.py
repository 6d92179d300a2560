"""Planted candidates: real machine code, from LLVM IR, for the Workload y = x + 1."""

from __future__ import annotations

import hashlib
from functools import cache

import llvmlite.binding as llvm

from compiler.codegen.kernel import Kernel, Param, Phase
from compiler.dtype import DType
from compiler.index import Index
from compiler.scalar import Const, Load, apply
from compiler.symbol import axis
from compiler.target import native_target
from compiler.workload.ir import Operand, Stage, Workload
from tuner.measure import Built
from tuner.task import Task

SIZE = 100
"""Not a multiple of 16 floats, so that the buffers start with a redzone."""

HALO = 3


def add_one() -> Workload:
    """y[0, i + 3] = x[i] + 1, with a halo of three zeros around y."""
    body = apply("add", Load("x", (Index.of("i"),)), Const(1.0))
    stage = Stage("s", (axis("i", SIZE),), (), None, body, "y", (Index.of("i") + HALO,))
    return Workload(
        operands=(Operand("x", (Index.of(SIZE),), DType.F32),),
        temporaries=(),
        outputs=(Operand("y", (Index.of(SIZE + 2 * HALO),), DType.F32),),
        stages=(stage,),
    )


def task(threads: int = 1) -> Task:
    return Task(add_one(), native_target(), threads, 1, "y = x + 1")


LOOP = """
declare ptr @malloc(i64)
declare i32 @puts(ptr)
declare i32 @getchar()
@calls = internal global i64 0
@text = private constant [4 x i8] c"LUF\\00"

define void @{name}(ptr %x, ptr %y{scratch}, i64 %begin, i64 %end) {{
entry:
  %any = icmp slt i64 %begin, %end
  br i1 %any, label %loop, label %after
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %from = getelementptr float, ptr %x, i64 %i
  %place = add i64 %i, {halo}
  %to = getelementptr float, ptr %y, i64 %place
  %value = load float, ptr %from, align 4
  %sum = fadd float %value, 1.0
  store float %sum, ptr %to, align 4
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %after
after:
  {then}
}}
"""

GOOD = "ret void"


def store(buffer: str, element: int, value: str) -> str:
    """Add one store after the loop."""
    return f"""
  %bad = getelementptr float, ptr %{buffer}, i64 {element}
  store volatile float {value}, ptr %bad, align 4
  ret void"""


FOR_EVER = """
  br label %spin
spin:
  %s = load volatile float, ptr %x, align 4
  br label %spin"""

DIVIDE_BY_ZERO = """
  %slot = alloca i64
  store volatile i64 0, ptr %slot
  %zero = load volatile i64, ptr %slot
  %q = sdiv i64 %end, %zero
  store volatile i64 %q, ptr %slot
  ret void"""

ALLOCATE_WITHOUT_END = """
  br label %more.memory
more.memory:
  %block = call ptr @malloc(i64 1048576)
  br label %touch
touch:
  %at = phi i64 [ 0, %more.memory ], [ %at.next, %touch ]
  %byte = getelementptr i8, ptr %block, i64 %at
  store volatile i8 1, ptr %byte
  %at.next = add i64 %at, 4096
  %inside = icmp slt i64 %at.next, 1048576
  br i1 %inside, label %touch, label %more.memory"""

TALKS = """
  %said = call i32 @puts(ptr @text)
  %heard = call i32 @getchar()
  ret void"""


_THE_SECOND_TIME = """
  %before = load i64, ptr @calls
  %called = add i64 %before, 1
  store i64 %called, ptr @calls
  %again = icmp ugt i64 %before, 0
  br i1 %again, label %wrong, label %right
right:
  ret void
wrong:"""

ABORTS_THE_SECOND_TIME = f"""{_THE_SECOND_TIME}
  call void @llvm.trap()
  unreachable"""

WRONG_THE_SECOND_TIME = f"""{_THE_SECOND_TIME}
  %spot = getelementptr float, ptr %y, i64 9
  store volatile float 0.5, ptr %spot, align 4
  ret void"""


def outside_the_second_time(buffer: str, element: int) -> str:
    """Store one element of a buffer, but not in the first run."""
    return f"""{_THE_SECOND_TIME}
  %spot = getelementptr float, ptr %{buffer}, i64 {element}
  store volatile float 0.5, ptr %spot, align 4
  ret void"""


WRITES_OUTSIDE_THE_SECOND_TIME = outside_the_second_time("y", SIZE + 2 * HALO)


def planted(then: str = GOOD, skip: int = 0, scratch: int = 0) -> Built:
    """The loop, and what comes after it.

    skip: leaves so many elements at the end out.
    scratch: elements of a scratch buffer `%t`.
    """
    shape = ((SIZE,), (SIZE + 2 * HALO,))
    params = (Param("x", "input", shape[0], DType.F32), Param("y", "output", shape[1], DType.F32))
    if scratch:
        params = (*params, Param("t", "scratch", (scratch,), DType.F32))
    name = f"planted_{hashlib.sha256(then.encode()).hexdigest()[:16]}"
    code = compiled(LOOP.format(name=name, halo=HALO, then=then, scratch=", ptr %t" if scratch else ""))
    return Built(Kernel("planted", (Phase(name, code, SIZE - skip),), params), 0.25)


@cache
def compiled(ir: str) -> bytes:
    """Object code, not optimised: what is planted stays."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(reloc="pic", opt=0)
    return bytes(machine.emit_object(llvm.parse_assembly(ir)))
