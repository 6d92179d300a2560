"""LLVM, through llvmlite: IR text to object code. The only place that runs its optimiser."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock

import llvmlite.binding as llvm

from compiler.errors import CompileError, TargetError
from compiler.recent import Recent
from compiler.target import Target

PASSES = ("sroa", "simplify_cfg")
"""All that our IR needs: registers out of stack slots, and blocks joined. The nest is unrolled and vectorised already,
and an Emitter makes each address once, outside the loops that do not move it. Value numbering and combining found
nothing that made code faster, and took as long as all the rest of this together; LLVM's full pipeline takes longer."""


MANY_REGISTERS = 32
"""Vector registers of targets whose code LLVM does not reorder (docs/decisions/0042).

Nests come in an order that keeps few values alive, and cores look far ahead by themselves. LLVM's scheduler knows
neither: for Zen 4 it moves the loads of long unrolled bodies so far up that registers spill. With few registers its
sense of them helps more than it harms.
"""

KERNEL_LEVEL, PROGRAM_LEVEL = 3, 1
"""How hard LLVM's code generator tries. A program is one long block that runs once per run: above level 1 the code
generator takes longer for it than for ten kernels."""


LOOKS_AHEAD = ("x86_64", "i686")
"""Architectures whose cores find by themselves what can run next: LLVM's last scheduling, after registers are chosen,
takes long and makes no code faster there."""


_SWITCH = Lock()
_SWITCHES: dict[str, str] = {}
"""What was last set: each setting goes through all options of LLVM."""
_OBJECTS: Recent[tuple[bytes, str], bytes] = Recent(64)


def emit_object(ir: str, target: Target, level: int = KERNEL_LEVEL) -> bytes:
    """Optimise and compile a module; raises CompileError with LLVM's own words.

    The object of a Target with a grid is its assembly as text, which the GPU's driver assembles.
    """
    if target.grid_threads:
        return emit_assembly(ir, target).encode()
    machine = _machine(target, level, os.getpid())
    module = _optimised(ir, machine)
    with _scheduling(target):
        return bytes(machine.emit_object(module))


def kernel_object(ir: str, target: Target) -> bytes:
    """`emit_object`, or what it gave for the same module a moment ago: kernels have phases in common."""
    key = (hashlib.sha256(ir.encode()).digest(), target.digest)
    return _OBJECTS.get(key, lambda: emit_object(ir, target))


def emit_assembly(ir: str, target: Target) -> str:
    """The optimised module as assembly text."""
    machine = target_machine(target)
    module = _optimised(ir, machine)
    with _scheduling(target):
        return str(machine.emit_assembly(module))


@contextmanager
def _scheduling(target: Target) -> Iterator[None]:
    """When LLVM reorders the instructions for a Target: switches of the process, so one emission at a time."""
    many = target.vector_registers >= MANY_REGISTERS
    wanted = {
        "-enable-misched": "false" if many else "true",
        "-disable-post-ra": "true" if target.triple.startswith(LOOKS_AHEAD) else "false",
    }
    with _SWITCH:
        for name, value in wanted.items():
            if _SWITCHES.get(name) != value:
                llvm.set_option("", f"{name}={value}")
                _SWITCHES[name] = value
        yield


def llvm_version() -> str:
    """Of the library that makes the code."""
    return ".".join(map(str, llvm.llvm_version_info))


@cache
def initialise() -> None:
    """Make every back end of the llvmlite wheel known to LLVM."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def target_machine(target: Target) -> llvm.TargetMachine:
    """LLVM's description of a Target; raises TargetError where this LLVM does not know it."""
    return _machine(target, KERNEL_LEVEL, os.getpid())


@cache
def _machine(target: Target, level: int, _pid: int) -> llvm.TargetMachine:
    initialise()
    try:
        back_end = llvm.Target.from_triple(target.triple)
    except RuntimeError as error:
        msg = f"this LLVM cannot make code for {target.triple}; choose another target"
        raise TargetError(msg) from error
    features = ",".join(f"+{f}" for f in target.features)
    return back_end.create_target_machine(
        cpu=target.cpu, features=features, opt=level, reloc="pic", codemodel="default"
    )


def _optimised(ir: str, machine: llvm.TargetMachine) -> llvm.ModuleRef:
    try:
        module = llvm.parse_assembly(ir)
        module.verify()
    except RuntimeError as error:
        msg = f"LLVM refuses the generated code: {str(error).strip().splitlines()[0]}; please report it with the model"
        raise CompileError(msg) from error
    module.triple = machine.triple
    # Before the passes: they fold addresses, whose width is the target's.
    module.data_layout = str(machine.target_data)
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    manager = llvm.create_new_module_pass_manager()
    for name in PASSES:
        getattr(manager, f"add_{name}_pass")()
    manager.run(module, builder)
    return module
