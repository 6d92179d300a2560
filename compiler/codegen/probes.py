"""Probes: kernels that measure what a machine can do, emitted like every other, so that they use its widest vectors.

multiply_add    independent vector accumulators, as many as the registers hold     -> operations a second
issue           multiply-adds and integer instructions side by side                -> vector instructions a second
divide          divisions alone                                                    -> vector divisions a second
read            one pass over a buffer with eight accumulators                     -> bytes a second
copy            one pass over two buffers, from one into the other                 -> bytes a second, both counted
"""

from __future__ import annotations

from collections.abc import Mapping

from compiler.codegen.kernel import Kernel, Param, Phase
from compiler.codegen.llvm import emit_object
from compiler.codegen.types import literal, llvm_type, suffix
from compiler.dtype import DType
from compiler.target import Target

ROUNDS = 20_000
"""Iterations of an arithmetic probe's loop: about a tenth of a millisecond."""
_READ_ACCUMULATORS = 8
_COPIED_VECTORS = 8
_SPARE_REGISTERS = 4
_PLACE = (
    "  %i = phi i64 [ 0, %start ], [ %i.n, %loop ]",
    "  %at = add i64 %first, %i",
    "  %row = getelementptr float, ptr %in, i64 %at",
)
"""Where the loop of a sweep is."""

ARITHMETIC: Mapping[str, tuple[str, ...]] = {
    "multiply_add": ("fma",),
    "issue": ("fma", "fma", "integer"),
    "divide": ("divide",),
}
"""What the accumulators of each arithmetic probe do, in turn. Where integer and float units stand side by side, the
mix keeps both busy; the integer chains are short and do two instructions a round, so that half of all are theirs."""
_INSTRUCTIONS = {"fma": 1, "integer": 2, "divide": 1}


def probe_instructions(target: Target, threads: int, kind: str) -> int:
    """Vector instructions of one run of an arithmetic probe; a multiply-add is one, also where it takes two."""
    return ROUNDS * threads * sum(_INSTRUCTIONS[step] for step in _steps(target, kind))


def multiply_add_operations(target: Target, threads: int) -> int:
    """Floating-point operations of one run of the multiply-add probe."""
    return 2 * target.lanes(4) * probe_instructions(target, threads, "multiply_add")


def arithmetic_probe(target: Target, threads: int, kind: str) -> Kernel:
    """A kernel whose only parameter takes one vector per thread; `kind` is a name of ARITHMETIC."""
    lanes = target.lanes(4)
    vector = llvm_type(DType.F32, lanes)
    steps = _steps(target, kind)
    names = [f"%a{i}" for i in range(len(steps))]
    phis = [
        f"  {n} = phi {vector} [ {literal(1.0 + i, DType.F32, lanes)}, %entry ], [ {n}.n, %loop ]"
        for i, n in enumerate(names)
    ]
    body = [
        f"declare {vector} @llvm.fma.{suffix(DType.F32, lanes)}({vector}, {vector}, {vector})",
        "define void @probe(ptr %out, i64 %begin, i64 %end) {",
        "entry:",
        "  %idle = icmp sge i64 %begin, %end",
        "  br i1 %idle, label %done, label %loop",
        "loop:",
        *phis,
        "  %i = phi i64 [ 0, %entry ], [ %i.n, %loop ]",
        *(line for name, step in zip(names, steps, strict=True) for line in _step(step, name, target)),
        "  %i.n = add i64 %i, 1",
        f"  %more = icmp slt i64 %i.n, {ROUNDS}",
        "  br i1 %more, label %loop, label %sum",
        "sum:",
        *_sum([f"{n}.n" for n in names], vector),
        "done:",
        "  ret void",
        "}",
    ]
    param = Param("out", "output", (threads * lanes,), DType.F32)
    return _probe("\n".join(body), target, (param,), threads)


def _steps(target: Target, kind: str) -> list[str]:
    turns = ARITHMETIC[kind]
    return [turns[i % len(turns)] for i in range(_accumulators(target))]


def _step(step: str, name: str, target: Target) -> list[str]:
    """One round of an accumulator."""
    lanes = target.lanes(4)
    vector, integers = llvm_type(DType.F32, lanes), llvm_type(DType.I32, lanes)
    factor, addend = literal(0.999, DType.F32, lanes), literal(0.001, DType.F32, lanes)
    if step == "fma" and not target.has_fma:
        return [
            f"  {name}.p = fmul {vector} {name}, {factor}",
            f"  {name}.n = fadd {vector} {name}.p, {addend}",
        ]
    if step == "fma":
        call = f"call {vector} @llvm.fma.{suffix(DType.F32, lanes)}"
        return [f"  {name}.n = {call}({vector} {name}, {vector} {factor}, {vector} {addend})"]
    if step == "divide":
        return [f"  {name}.n = fdiv {vector} {name}, {literal(1.001, DType.F32, lanes)}"]
    return [
        f"  {name}.b = bitcast {vector} {name} to {integers}",
        f"  {name}.s = add {integers} {name}.b, {literal(12345, DType.I32, lanes)}",
        f"  {name}.x = xor {integers} {name}.s, {literal(54321, DType.I32, lanes)}",
        f"  {name}.n = bitcast {integers} {name}.x to {vector}",
    ]


def read_probe(target: Target, threads: int, size_bytes: int) -> Kernel:
    """A kernel that reads its first parameter, of about that size, once."""
    lanes = target.lanes(4)
    vector = llvm_type(DType.F32, lanes)
    step = lanes * _READ_ACCUMULATORS
    share = max(1, size_bytes // 4 // threads // step) * step
    names = [f"%a{i}" for i in range(_READ_ACCUMULATORS)]
    phis = [f"  {n} = phi {vector} [ zeroinitializer, %start ], [ {n}.n, %loop ]" for n in names]
    loads = []
    for i, n in enumerate(names):
        loads += [
            f"  {n}.p = getelementptr float, ptr %row, i64 {i * lanes}",
            f"  {n}.v = load {vector}, ptr {n}.p, align 4",
            f"  {n}.n = fadd {vector} {n}, {n}.v",
        ]
    last = _sum([f"{n}.n" for n in names], vector)
    text = _sweep("ptr readonly %in, ptr %out", share, step, [*phis, *_PLACE, *loads], last)
    params = (
        Param("in", "input", (share * threads,), DType.F32),
        Param("out", "output", (threads * lanes,), DType.F32),
    )
    return _probe(text, target, params, threads)


def copy_probe(target: Target, threads: int, size_bytes: int) -> Kernel:
    """A kernel that copies its first parameter into its second; both together are of about that size."""
    lanes = target.lanes(4)
    vector = llvm_type(DType.F32, lanes)
    step = lanes * _COPIED_VECTORS
    share = max(1, size_bytes // 8 // threads // step) * step
    moves = []
    for i in range(_COPIED_VECTORS):
        moves += [
            f"  %p{i} = getelementptr float, ptr %row, i64 {i * lanes}",
            f"  %v{i} = load {vector}, ptr %p{i}, align 4",
            f"  %q{i} = getelementptr float, ptr %result, i64 {i * lanes}",
            f"  store {vector} %v{i}, ptr %q{i}, align 4",
        ]
    text = _sweep(
        "ptr noalias readonly %in, ptr noalias %out",
        share,
        step,
        [*_PLACE, "  %result = getelementptr float, ptr %out, i64 %at", *moves],
        ["  br label %done"],
    )
    params = (
        Param("in", "input", (share * threads,), DType.F32),
        Param("out", "output", (share * threads,), DType.F32),
    )
    return _probe(text, target, params, threads)


def _sweep(params: str, share: int, step: int, body: list[str], last: list[str]) -> str:
    """A function whose loop passes over a thread's share, `step` elements at a time."""
    lines = [
        f"define void @probe({params}, i64 %begin, i64 %end) {{",
        "entry:",
        "  %idle = icmp sge i64 %begin, %end",
        "  br i1 %idle, label %done, label %start",
        "start:",
        f"  %first = mul i64 %begin, {share}",
        "  br label %loop",
        "loop:",
        *body,
        f"  %i.n = add i64 %i, {step}",
        f"  %more = icmp slt i64 %i.n, {share}",
        "  br i1 %more, label %loop, label %last",
        "last:",
        *last,
        "done:",
        "  ret void",
        "}",
    ]
    return "\n".join(lines)


def _accumulators(target: Target) -> int:
    return max(4, target.vector_registers - _SPARE_REGISTERS)


def _sum(names: list[str], vector: str) -> list[str]:
    """Add up vectors and store them where this share's result goes, so that none of the work can be left out."""
    lines, total = [], names[0]
    for i, name in enumerate(names[1:]):
        lines.append(f"  %s{i} = fadd {vector} {total}, {name}")
        total = f"%s{i}"
    return [
        *lines,
        f"  %place = getelementptr {vector}, ptr %out, i64 %begin",
        f"  store {vector} {total}, ptr %place, align 4",
        "  br label %done",
    ]


def _probe(ir: str, target: Target, params: tuple[Param, ...], threads: int) -> Kernel:
    return Kernel("probe", (Phase("probe", emit_object(ir, target), threads),), params)
