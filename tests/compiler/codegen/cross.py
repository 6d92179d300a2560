"""Kernels for other machines, run for real: aarch64 under qemu-user, WebAssembly under wasmtime.

All kernels of a target become one executable. Its memory is one arena that holds every buffer of every kernel: the
test fills it, the executable runs each kernel once, the test reads it back.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from compiler.codegen.kernel import Kernel
from compiler.evaluate import reference_outputs
from compiler.pipeline import build_kernel
from compiler.schedule.schedule import Schedule
from compiler.target import Target
from compiler.workload.ir import Workload
from tests.compiler.execute import Arrays, relative_error
from tests.compiler.workloads import random_operands

ALIGNMENT = 64
TIMEOUT_S = 300


def missing(what: str) -> None:
    """Skip for want of a tool; under CI=true, where every tool is installed, fail."""
    if os.environ.get("CI") == "true":
        pytest.fail(what)
    pytest.skip(what)


def require_program(name: str) -> str:
    """Path of a program; skips without it."""
    found = shutil.which(name)
    if found is None:
        missing(f"this machine has no {name}")
    return str(found)


def require_package(name: str) -> None:
    """Skip without a package of the extra `wasm`."""
    if find_spec(name) is None:
        missing(f"package {name} is not installed")


@dataclass(frozen=True)
class Call:
    """A function, offsets of what its pointers point to in the arena, and a share.

    Without a share it is a whole program, which takes a team and a table of the pointers.
    """

    symbol: str
    pointers: tuple[int, ...]
    numbers: tuple[int, int] | None


@dataclass(frozen=True)
class Case:
    """A kernel and where its buffers lie in the arena."""

    name: str
    workload: Workload
    operands: Arrays
    kernel: Kernel
    offsets: tuple[int, ...]

    def fill(self, arena: np.ndarray) -> None:
        """Inputs and packed constants; outputs and scratch memory are poisoned."""
        for param, offset in zip(self.kernel.params, self.offsets, strict=True):
            place = arena[offset : offset + param.size_bytes]
            if param.role in ("output", "scratch"):
                place[:] = 255  # a NaN, of any number of bytes
            else:
                source = self.operands[param.name]
                packed = source if param.packing is None else param.packing.apply(source)
                place[:] = packed.reshape(-1).view(np.uint8)

    def error(self, arena: np.ndarray) -> float:
        """Of the output, relative to the largest value of the float64 reference; none is allowed of whole numbers."""
        expected = reference_outputs(self.workload, self.operands)["y0"]
        place = next(i for i, p in enumerate(self.kernel.params) if p.role == "output")
        param, offset = self.kernel.params[place], self.offsets[place]
        got = arena[offset : offset + param.size_bytes].view(param.dtype.numpy)
        got = got.reshape(expected.shape)
        if not param.dtype.is_float:
            return 0.0 if np.array_equal(got, expected) else np.inf
        return relative_error(got, expected)

    def calls(self) -> list[Call]:
        """Each phase in two shares, so that neither may assume all of it."""
        found = []
        for phase in self.kernel.phases:
            extent, half = phase.parallel_extent, phase.parallel_extent // 2
            found += [Call(phase.symbol, self.offsets, share) for share in ((half, extent), (0, half))]
        return found


def random_values(workload: Workload) -> Arrays:
    """Operands: normal numbers, or whole numbers from the type's whole range."""
    rng = np.random.default_rng(0)
    values = random_operands(workload)
    for operand in workload.operands:
        if not operand.dtype.is_float:
            limits = np.iinfo(operand.dtype.numpy)
            values[operand.name] = rng.integers(
                limits.min, limits.max, operand.sizes, operand.dtype.numpy, endpoint=True
            )
    return values


def place_cases(schedules: list[tuple[str, Workload, Schedule]], target: Target) -> tuple[list[Case], int]:
    """The kernels of a target, each once, and the size of the arena."""
    cases: dict[str, Case] = {}
    size = 0
    for name, workload, schedule in schedules:
        kernel = build_kernel(workload, schedule, target)
        if kernel.name in cases:
            continue
        offsets = []
        for param in kernel.params:
            offsets.append(size)
            size += -(-param.size_bytes // ALIGNMENT) * ALIGNMENT
        cases[kernel.name] = Case(name, workload, random_values(workload), kernel, tuple(offsets))
    return list(cases.values()), size


def filled_arena(cases: list[Case], size: int) -> np.ndarray:
    """The arena before the run."""
    arena = np.zeros(size, np.uint8)
    for case in cases:
        case.fill(arena)
    return arena


def link(linker: str, objects: list[bytes], folder: Path, *options: str) -> Path:
    """Link objects and nothing else: a function that is defined nowhere is an error."""
    names = []
    for number, code in enumerate(objects):
        names.append(folder / f"{number}.o")
        names[-1].write_bytes(code)
    out = folder / "linked"
    zig(folder, linker, *options, "-o", out, *names)
    return out


def zig(folder: Path, *command: str | Path) -> None:
    """Run a program of package ziglang, which brings LLVM's linkers and a C compiler."""
    require_package("ziglang")
    environment = {**os.environ, "ZIG_GLOBAL_CACHE_DIR": str(folder), "ZIG_LOCAL_CACHE_DIR": str(folder)}
    done = subprocess.run(
        [sys.executable, "-m", "ziglang", *command],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env=environment,
    )
    assert done.returncode == 0, done.stderr


# --- WebAssembly


def run_wasm(objects: list[bytes], calls: list[Call], arena: np.ndarray, folder: Path) -> np.ndarray:
    """The arena after the calls under wasmtime; the module may import nothing."""
    require_package("wasmtime")
    import wasmtime

    exports = [f"--export={symbol}" for symbol in (*(call.symbol for call in calls), "__heap_base")]
    path = link("wasm-ld", objects, folder, "--no-entry", *exports)
    store = wasmtime.Store()
    module = wasmtime.Module(store.engine, path.read_bytes())
    assert not module.imports
    exported = wasmtime.Instance(store, module, []).exports(store)
    memory = exported["memory"]
    base = -(-exported["__heap_base"].value(store) // ALIGNMENT) * ALIGNMENT
    table = base + arena.size
    memory.grow(store, -(-(table + 4 * max(len(call.pointers) for call in calls)) // (1 << 16)))
    memory.write(store, arena.tobytes(), base)
    for call in calls:
        pointers = [base + offset for offset in call.pointers]
        if call.numbers is None:
            memory.write(store, np.array(pointers, "<u4").tobytes(), table)
            exported[call.symbol](store, 0, table)
        else:
            exported[call.symbol](store, *pointers, *call.numbers)
    return np.frombuffer(memory.read(store, base, table), np.uint8)


# --- aarch64 Linux, without a C library

_DRIVER = """
static unsigned char arena[{size}] __attribute__((aligned({alignment})));

static long system_call(long number, long file, unsigned char *place, long bytes) {{
    register long x8 __asm__("x8") = number, x0 __asm__("x0") = file, x2 __asm__("x2") = bytes;
    register unsigned char *x1 __asm__("x1") = place;
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
    return x0;
}}

static void move(long number, long file) {{
    for (long done = 0, part = 1; done < {size} && part > 0; done += part)
        part = system_call(number, file, arena + done, {size} - done);
}}

{declarations}
void _start(void) {{
    move(63, 0); /* read */
{calls}
    move(64, 1); /* write */
    system_call(93, 0, 0, 0); /* exit */
}}
"""


def run_aarch64(objects: list[bytes], calls: list[Call], arena: np.ndarray, folder: Path) -> np.ndarray:
    """The arena after the calls in a static executable under qemu."""
    emulator = require_program("qemu-aarch64")
    require_package("ziglang")
    source, driver = folder / "driver.c", folder / "driver.o"
    source.write_text(_driver(calls, arena.size))
    zig(folder, "cc", "-target", "aarch64-linux", "-O1", "-ffreestanding", "-c", source, "-o", driver)
    path = link("ld.lld", [driver.read_bytes(), *objects], folder, "-static")
    path.chmod(0o755)
    done = subprocess.run([emulator, path], input=arena.tobytes(), capture_output=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout) == arena.size
    return np.frombuffer(done.stdout, np.uint8)


def _driver(calls: list[Call], size: int) -> str:
    """A program: the arena from standard input, every call, the arena to standard output."""
    declarations, lines = set(), []
    for call in calls:
        places = ", ".join(f"arena + {offset}" for offset in call.pointers)
        if call.numbers is None:
            declarations.add(f"void {call.symbol}(void *, void **);")
            lines.append(f"    {{ void *table[] = {{{places}}}; {call.symbol}(0, table); }}")
        else:
            pointers = ", ".join(["void *"] * len(call.pointers))
            declarations.add(f"void {call.symbol}({pointers}, long, long);")
            lines.append(f"    {call.symbol}({places}, {call.numbers[0]}, {call.numbers[1]});")
    return _DRIVER.format(
        size=size, alignment=ALIGNMENT, declarations="\n".join(sorted(declarations)), calls="\n".join(lines)
    )
