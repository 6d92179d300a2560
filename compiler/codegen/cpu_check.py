"""Whether the CPU that code runs on has what the code was made for, asked by the code itself.

    i1  cpu_fits()        for every CPU of the instruction set: compile it for `baseline`

x86_64 asks the CPU (CPUID, and XGETBV for registers that the system saves) and, for registers of matrices, Linux;
aarch64 asks the system (AT_HWCAP). Bits are those of Intel's Software Developer's Manual, volume 2A, of AMD's APM,
volume 3, and of Linux's <asm/hwcap.h>.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from compiler.errors import TargetError
from compiler.target import ARCH_PRCTL, MATRIX_REQUEST, Target

_BASELINE = {"x86_64": "x86-64", "aarch64": "generic"}
_CPUID, _XCR0 = "cpuid_words", "xcr0_word"

RAW_CODE = {
    "x86_64": {
        # void cpuid_words(i32 leaf, i32 subleaf, ptr eax_ebx_ecx_edx)
        _CPUID: bytes.fromhex(
            "53"  # push rbx
            "4989d0"  # mov r8, rdx
            "89f8"  # mov eax, edi
            "89f1"  # mov ecx, esi
            "0fa2"  # cpuid
            "418900"  # mov [r8], eax
            "41895804"  # mov [r8+4], ebx
            "41894808"  # mov [r8+8], ecx
            "4189500c"  # mov [r8+12], edx
            "5b"  # pop rbx
            "c3"  # ret
        ),
        # i32 xcr0_word(): the low half of register 0 of XGETBV
        _XCR0: bytes.fromhex("31c90f01d0c3"),  # xor ecx, ecx; xgetbv; ret
    },
    "aarch64": {},
}
"""Functions that LLVM's IR cannot express without an assembler, per instruction set: name to machine code."""

_LEAVES = {
    "1": (1, 0),
    "7": (7, 0),
    "7.1": (7, 1),
    "8": (0x80000001, 0),
}
_WORDS = ("eax", "ebx", "ecx", "edx")

# leaf.register: feature=bit ...
_CPUID_BITS = {
    "1.ecx": "sse3=0 pclmul=1 ssse3=9 fma=12 cx16=13 sse4.1=19 sse4.2=20 crc32=20 movbe=22 popcnt=23 aes=25 xsave=26 "
    "avx=28 f16c=29",
    "1.edx": "cx8=8 cmov=15 mmx=23 fxsr=24 sse=25 sse2=26",
    "7.ebx": "bmi=3 avx2=5 bmi2=8 avx512f=16 avx512dq=17 adx=19 avx512ifma=21 avx512cd=28 sha=29 avx512bw=30 "
    "avx512vl=31",
    "7.ecx": "avx512vbmi=1 avx512vbmi2=6 gfni=8 vaes=9 vpclmulqdq=10 avx512vnni=11 avx512bitalg=12 avx512vpopcntdq=14",
    "7.edx": "avx512vp2intersect=8 amx-bf16=22 avx512fp16=23 amx-tile=24 amx-int8=25",
    "7.1.eax": "sha512=0 sm3=1 sm4=2 avxvnni=4 avx512bf16=5 avxifma=23",
    "7.1.edx": "avxvnniint8=4 avxneconvert=5 avxvnniint16=10 avx10.1=19 avx10.2=19 "
    "ccmp=21 cf=21 egpr=21 ndd=21 nf=21 ppx=21 push2pop2=21 zu=21",
    "8.ecx": "sahf=0 lzcnt=5 sse4a=6 xop=11 fma4=16 tbm=21",
    "8.edx": "64bit=29",
}
_OF_THEIR_INTRINSICS = (
    "clflushopt cldemote clwb clzero cmpccxadd enqcmd fsgsbase hreset invpcid kl lwp movdir64b movdiri "
    "movrs mwaitx pconfig pku prefetchi prfchw ptwrite raoint rdpid rdpru rdrnd rdseed rtm serialize sgx "
    "shstk tsxldtrk uintr usermsr waitpkg wbnoinvd widekl xsavec xsaveopt xsaves amx-avx512 "
    "amx-complex amx-fp16 amx-fp8 amx-movrs amx-tf32"
)
"""Features whose instructions come out of intrinsics alone, which no kernel calls: a CPU need not have them."""
_AVX_STATE, _AVX512_STATE, _APX_STATE, _MATRICES = 0x6, 0xE6, 1 << 19, 0x60000
"""Bits of XCR0: the system saves these registers."""
_OSXSAVE = 27

_HWCAP_BITS = {
    "fp-armv8": 0, "neon": 1, "aes": 3, "sha2": 6, "crc": 7, "lse": 8, "fullfp16": 10, "rdm": 12, "rcpc": 15,
    "dotprod": 20, "sve": 22,
}  # fmt: skip
_IMPLIED = {
    "generic": "fp-armv8 neon",
    "cortex-a72": "fp-armv8 neon crc",
    "neoverse-n1": "fp-armv8 neon crc lse fullfp16 rdm rcpc dotprod",
}
"""Features that LLVM takes a CPU to have beside those that the Target names."""
_AT_HWCAP = 16


def baseline(target: Target) -> Target:
    """What every CPU of the instruction set has, the check's own Target."""
    return replace(target, cpu=_BASELINE[target.instruction_set], features=())


def emit_cpu_check(target: Target) -> str:
    """IR of `cpu_fits`, to be compiled for `baseline`; raises TargetError where a feature cannot be asked for."""
    if target.instruction_set == "x86_64":
        return _check_x86(target)
    return _check_arm(target)


def _check_x86(target: Target) -> str:
    bits = {
        name: (word, int(bit))
        for word, row in _CPUID_BITS.items()
        for name, bit in (pair.split("=") for pair in row.split())
    }
    asked = _known(target, target.features, [*bits, *_OF_THEIR_INTRINSICS.split()])
    masks: dict[str, int] = {}
    for name in sorted(asked & bits.keys()):
        word, bit = bits[name]
        masks[word] = masks.get(word, 0) | 1 << bit
    state = _state(asked)
    if state:
        masks["1.ecx"] = masks.get("1.ecx", 0) | 1 << _OSXSAVE
    lines = [
        f"declare void @{_CPUID}(i32, i32, ptr)",
        f"declare i32 @{_XCR0}()",
        "define internal i1 @cpu_fits() {",
        "entry:",
        "  %words = alloca [4 x i32], align 4",
    ]
    # A CPU answers a leaf that it does not know with another's words: ask first how many there are.
    for number, (leaf, base) in enumerate(_highest(masks)):
        lines += [*_cpuid(f"%h{number}", base, 0, "eax"), f"  %hc{number} = icmp uge i32 %h{number}, {leaf}"]
        lines += [f"  br i1 %hc{number}, label %h{number}.ok, label %no", f"h{number}.ok:"]
    for number, (word, mask) in enumerate(masks.items()):
        name, _, register = word.rpartition(".")
        value = f"%w{number}"
        lines += [*_cpuid(value, *_LEAVES[name], register), *_has(value, mask, f"w{number}")]
    if state:
        lines += [f"  %state = call i32 @{_XCR0}()", *_has("%state", state, "state")]
    if state & _MATRICES:
        lines.insert(0, "declare i64 @syscall(i64, ...)")
        asking = f"i64 {ARCH_PRCTL}, " + ", ".join(f"i64 {n}" for n in MATRIX_REQUEST)
        lines += [
            f"  %refused = call i64 (i64, ...) @syscall({asking})",
            "  %granted = icmp eq i64 %refused, 0",
            "  br i1 %granted, label %matrices, label %no",
            "matrices:",
        ]
    return "\n".join([*lines, "  ret i1 true", "no:", "  ret i1 false", "}", ""])


def _state(features: Iterable[str]) -> int:
    """Registers beyond SSE's that the system must save, as bits of XCR0."""
    found = 0
    for name in features:
        if name.startswith(("avx", "fma", "f16c", "vaes", "vpclmulqdq", "xop")):
            found |= _AVX_STATE
        if name.startswith("avx512") or name.startswith("avx10"):
            found |= _AVX512_STATE
        if name in ("egpr", "push2pop2"):
            found |= _APX_STATE
        if name == "amx-tile":
            found |= _MATRICES
    return found


def _highest(masks: Iterable[str]) -> list[tuple[int, int]]:
    """The largest leaf of each range that is asked for, and the leaf that tells the range's end."""
    leaves = [_LEAVES[word.rpartition(".")[0]][0] for word in masks]
    ranges = {base: max((n for n in leaves if n & 0x80000000 == base), default=0) for base in (0, 0x80000000)}
    return [(leaf, base) for base, leaf in ranges.items() if leaf]


def _cpuid(value: str, leaf: int, subleaf: int, register: str) -> list[str]:
    return [
        f"  call void @{_CPUID}(i32 {leaf}, i32 {subleaf}, ptr %words)",
        f"  {value}.p = getelementptr i32, ptr %words, i64 {_WORDS.index(register)}",
        f"  {value} = load i32, ptr {value}.p, align 4",
    ]


def _has(value: str, mask: int, label: str, kind: str = "i32") -> list[str]:
    return [
        f"  %{label}.m = and {kind} {value}, {mask}",
        f"  %{label}.c = icmp eq {kind} %{label}.m, {mask}",
        f"  br i1 %{label}.c, label %{label}.ok, label %no",
        f"{label}.ok:",
    ]


def _check_arm(target: Target) -> str:
    if target.cpu not in _IMPLIED:
        msg = (
            f"which features CPU {target.cpu} has is not known here; compile for one of "
            f"{', '.join(f'aarch64-{name}' for name in _IMPLIED if name != 'generic')}"
        )
        raise TargetError(msg)
    asked = _known(target, {*target.features, *_IMPLIED[target.cpu].split()}, list(_HWCAP_BITS))
    mask = sum(1 << _HWCAP_BITS[name] for name in asked)
    return "\n".join(
        [
            "declare i64 @getauxval(i64)",
            "define internal i1 @cpu_fits() {",
            "entry:",
            f"  %hwcap = call i64 @getauxval(i64 {_AT_HWCAP})",
            *_has("%hwcap", mask, "hwcap", "i64"),
            "  ret i1 true",
            "no:",
            "  ret i1 false",
            "}",
            "",
        ]
    )


def _known(target: Target, features: Iterable[str], known: Sequence[str]) -> frozenset[str]:
    found = frozenset(features)
    unknown = sorted(found.difference(known))
    if unknown:
        msg = (
            f"whether a CPU has {unknown[0]}, which code for {target.name} may use, cannot be asked yet; "
            "compile for a named target such as x86-64-v3"
        )
        raise TargetError(msg)
    return found
