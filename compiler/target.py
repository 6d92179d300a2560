"""Target: the machine that code is made *for*, as data.

Rules, the analytic model and the code generator read these fields and nothing else; a new machine is a new value.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import logging
import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from compiler.errors import TargetError

_LOG = logging.getLogger("luthier")
_FUSED = frozenset({"fma", "avx512f", "neon"})
"""Features of CPUs that bring a fused multiply-add."""
LINE_BYTES = 64
"""Of a cache; a prefetch brings as much, at least."""
PAGE_BYTES = 4096
"""Of memory. A first cache begins with its first set again after as much, or less."""
_HALVES = frozenset({"znver4"})
"""CPUs, as LLVM names them, that take vectors longer than _HALF_BYTES in two halves."""
_HALF_BYTES = 32
LONGEST_BYTES = 64
"""Of an AVX-512 vector."""
_MEMORY_RATES = {
    "znver1": (3.5, 12.0),
    "znver2": (3.5, 12.0),
    "znver3": (3.5, 12.0),
    "znver4": (8.5, 10.0),
    "znver5": (11.0, 22.0),
}
"""Bytes that memory gives in a cycle to one core, and to all of a die, by LLVM's name of the CPU.

Measured on one and two cores; what all get of Zen 3 and before is what their link carries.
"""
_CORES_OF_A_DIE = 8
"""Of those CPUs; they share a way to memory."""
MATRIX_REGISTERS = 8
"""Of a CPU that has any: each holds 16 rows of 64 bytes."""
ARCH_PRCTL, MATRIX_REQUEST = 158, (0x1023, 18)
"""Linux's system call on x86-64, and its arguments that ask for registers of matrices (XTILEDATA): a process may not
use them before. Linux, Documentation/arch/x86/xstate.rst."""
_OF_MATRICES = "amx-"
"""How the features begin whose instructions need those registers."""
FEW_REGISTERS = 16
"""Vector registers that the constants of an elementary function would fill."""


@dataclass(frozen=True)
class Target:
    """What changes the best code. Sizes in bytes; `vector_bytes` is the width the code generator uses.

    `grid_threads`: most threads of one block of a grid (GPU); 0 where a team of threads shares out loops (CPU).
    On a GPU `cores` are its multiprocessors and `l1_bytes` is the shared memory that one block may use.
    """

    name: str
    triple: str
    cpu: str
    features: tuple[str, ...]
    vector_bytes: int
    vector_registers: int
    cores: int
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    grid_threads: int = 0

    @cached_property
    def digest(self) -> str:
        """64 hexadecimal digits over every field but the name, and but those that have their default."""
        values = asdict(self)
        telling = {f.name: values[f.name] for f in fields(self) if values[f.name] != f.default}
        del telling["name"]
        return hashlib.sha256(json.dumps(telling, sort_keys=True).encode()).hexdigest()

    def lanes(self, element_bytes: int) -> int:
        """Elements of that size in one vector."""
        return max(1, self.vector_bytes // element_bytes)

    @property
    def halves_vectors(self) -> bool:
        """Whether an instruction on whole vectors takes them in two halves."""
        return self.cpu in _HALVES and self.vector_bytes > _HALF_BYTES

    @property
    def of_half_vectors(self) -> Target:
        """The same, with vectors half as long: where whole ones are taken in halves, they are as fast."""
        return replace(self, vector_bytes=self.vector_bytes // 2)

    def memory_rate(self, threads: int) -> float:
        """Bytes that each of so many threads fetches from memory in a cycle, behind arithmetic.

        0 where none are known to hide.
        """
        alone, together = _MEMORY_RATES.get(self.cpu, (0.0, 0.0))
        return min(alone, together / min(threads, _CORES_OF_A_DIE))

    @property
    def indexes_freely(self) -> bool:
        """Whether an operand whose address is the sum of two registers costs no more than one of a single register.

        Intel's cores make two instructions of most that read such an operand, AMD's do not.
        """
        return self.cpu.startswith("znver")

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds of whole vectors that start in one cycle."""
        return 1 if self.halves_vectors else 2

    @property
    def masked_stores(self) -> bool:
        """Whether a store of some lanes of a vector is one instruction."""
        return "avx512vl" in self.features or "sve" in self.features

    @property
    def instruction_set(self) -> str:
        """The first word of the triple: x86_64, aarch64, wasm32, nvptx64 ..."""
        return self.triple.split("-", maxsplit=1)[0]

    @property
    def has_fma(self) -> bool:
        """Whether a multiply-add is one instruction; elsewhere it is two, never a call to a library."""
        return self.grid_threads > 0 or not _FUSED.isdisjoint(self.features)

    @property
    def estimate_bits(self) -> int:
        """Bits of the estimate of an inverse square root that is one instruction; 0 where there is none."""
        return 14 if "avx512vl" in self.features else 11 if "avx" in self.features else 0

    @property
    def whole_maximum(self) -> bool:
        """Whether a maximum that keeps NaN is one instruction; x86 takes three, and one where NaN may be lost."""
        return self.instruction_set != "x86_64"

    @property
    def reads_constants(self) -> bool:
        """Whether a constant of a multiply-add is best read from memory, whole: an operand that needs no register.

        So it is where instructions read memory and have few registers; AVX-512 has more, and repeats one element.
        """
        return self.instruction_set == "x86_64" and self.has_fma and self.vector_registers <= FEW_REGISTERS

    @property
    def lookup_lanes(self) -> int:
        """Floats of a table in registers, of which one instruction gives each lane one; 0 where there is none.

        AVX-512 has it for two of its longest vectors. Where those are taken in halves it takes longer.
        """
        longest = "avx512f" in self.features and self.vector_bytes == LONGEST_BYTES
        return 2 * self.lanes(4) if longest and not self.halves_vectors else 0

    @property
    def is_native(self) -> bool:
        """Whether this very process can run its code; registers of matrices are asked for."""
        return native_target().triple == self.triple and set(self.features) <= set(native_target().features)


def target_json(target: Target) -> dict[str, Any]:
    """JSON form, every field."""
    return {**asdict(target), "features": list(target.features)}


def target_from_json(data: Mapping[str, Any]) -> Target:
    """Inverse of `target_json`; raises TypeError or KeyError on anything else."""
    return Target(**{**data, "features": tuple(data["features"])})


def get_target(name: str | Target | None) -> Target:
    """A Target by name, None for this machine; raises TargetError with the known names."""
    if isinstance(name, Target):
        return name
    if name is None or name == "native":
        return native_target()
    if name not in PRESETS:
        msg = f"unknown target {name!r}; use one of: native, {', '.join(sorted(PRESETS))}"
        raise TargetError(msg)
    return PRESETS[name]


@cache
def native_target() -> Target:
    """This machine, as the operating system and LLVM describe it; from here on this process may use all of it."""
    import llvmlite.binding as llvm

    features = tuple(sorted(f for f, on in llvm.get_host_cpu_features().items() if on))
    if any(f.startswith(_OF_MATRICES) for f in features) and not _may_use_matrices():
        features = tuple(f for f in features if not f.startswith(_OF_MATRICES))
        _LOG.warning(
            "the system refuses this CPU's registers of matrices (AMX); products are made in vectors"
        )
    vector_bytes, registers = _vector_shape(platform.machine(), features)
    caches = _cache_sizes()
    return Target(
        name="native",
        triple=llvm.get_process_triple(),
        cpu=llvm.get_host_cpu_name(),
        features=features,
        vector_bytes=vector_bytes,
        vector_registers=registers,
        cores=os.cpu_count() or 1,
        l1_bytes=caches.get(1, 32 << 10),
        l2_bytes=caches.get(2, 512 << 10),
        l3_bytes=caches.get(3, 8 << 20),
    )


def _may_use_matrices() -> bool:
    """Ask the system for registers of matrices, for all threads of this process and those that are forked from it."""
    if not sys.platform.startswith("linux"):
        return False
    return bool(ctypes.CDLL(None).syscall(ARCH_PRCTL, *MATRIX_REQUEST) == 0)


def usable_cores() -> int:
    """Cores that this process may run on (its CPU affinity)."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _vector_shape(machine: str, features: tuple[str, ...]) -> tuple[int, int]:
    if "avx512f" in features and "avx512vl" in features:
        return 64, 32
    if "avx2" in features:
        return 32, 16
    return (16, 32) if machine in ("aarch64", "arm64") else (16, 16)


def _cache_sizes() -> dict[int, int]:
    """Bytes of each data cache level of CPU 0; empty where the system does not tell."""
    sizes: dict[int, int] = {}
    for entry in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            if (entry / "type").read_text().strip() == "Instruction":
                continue
            level = int((entry / "level").read_text())
            text = (entry / "size").read_text().strip()
        except (OSError, ValueError):
            continue
        unit = {"K": 1 << 10, "M": 1 << 20}.get(text[-1:], 1)
        sizes[level] = int(text.rstrip("KM")) * unit
    return sizes


def _cpu(name: str, triple: str, cpu: str, features: str, **sizes: int) -> Target:
    """A Target whose cores and caches are those of a common machine of its kind, where `sizes` says nothing else."""
    common = {"cores": 2, "l1_bytes": 32 << 10, "l2_bytes": 1 << 20, "l3_bytes": 16 << 20}
    return Target(name, triple, cpu, tuple(sorted(features.split())), **{**common, **sizes})


_LINUX_X86, _LINUX_ARM = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"
_V3 = (
    "avx avx2 bmi bmi2 cmov cx16 f16c fma fxsr lzcnt mmx movbe popcnt sse sse2 sse3 sse4.1 sse4.2 ssse3 xsave"
)
_V4 = f"{_V3} avx512bw avx512cd avx512dq avx512f avx512vl"

_NEON = {"vector_bytes": 16, "vector_registers": 32}

PRESETS: Mapping[str, Target] = {
    t.name: t
    for t in (
        _cpu("x86-64-v3", _LINUX_X86, "x86-64-v3", _V3, vector_bytes=32, vector_registers=16),
        _cpu("x86-64-v4", _LINUX_X86, "x86-64-v4", _V4, vector_bytes=64, vector_registers=32),
        _cpu(
            "aarch64-neoverse-n1", _LINUX_ARM, "neoverse-n1", "fp-armv8 neon",
            **_NEON, cores=4, l1_bytes=64 << 10, l3_bytes=4 << 20,
        ),
        _cpu(
            "aarch64-cortex-a72", _LINUX_ARM, "cortex-a72", "fp-armv8 neon", **_NEON, cores=4, l3_bytes=1 << 20
        ),
        # Not the machine's registers: an engine gives its vectors those of the CPU below, at least 16.
        _cpu(
            "wasm32", "wasm32-unknown-unknown", "generic", "simd128",
            vector_bytes=16, vector_registers=16, cores=1,
        ),
        _cpu(
            "nvptx64-sm80", "nvptx64-nvidia-cuda", "sm_80", "ptx70",
            vector_bytes=4, vector_registers=255, cores=108, l1_bytes=48 << 10, l2_bytes=40 << 20,
            l3_bytes=40 << 20, grid_threads=1024,
        ),
    )
}  # fmt: skip
"""Targets by name; this machine is "native"."""
