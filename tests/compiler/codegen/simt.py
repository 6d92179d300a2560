"""A GPU's way of running a kernel, on the CPU: the emitted IR with callbacks in place of its special registers.

Every thread of the grid calls the function; the threads of a block are real threads that meet at a real barrier where
the kernel has one, and come one after the other elsewhere.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from math import prod

import llvmlite.binding as llvm
import numpy as np

from compiler.codegen.grid_entry import Launch, launch
from compiler.codegen.llvm import emit_object
from compiler.codegen.nest import PhaseModule, emit_nest
from compiler.loop.ir import LoopNest
from compiler.target import Target, native_target
from tests.compiler.execute import Arrays

_REGISTERS = [f"{name}.{dimension}" for name in ("ctaid", "tid") for dimension in "xyz"]
TIMEOUT_S = 30


def run_grid(nest: LoopNest, target: Target, operands: Arrays) -> np.ndarray:
    """The output y0, poisoned before."""
    arrays = {
        b.name: operands[b.name] if b.name in operands else np.full(b.shape, np.nan, b.dtype.numpy)
        for b in nest.params
    }
    pointers = [arrays[b.name].ctypes.data for b in nest.params]
    for module, body in zip(emit_nest(nest, target), nest.phases, strict=True):
        _Machine(module).run(launch(body), pointers)
    return arrays["y0"]


class _Machine:
    def __init__(self, module: PhaseModule) -> None:
        self._place = threading.local()
        self._barrier = threading.Barrier(1)
        self._callbacks = [self._register(number) for number in range(len(_REGISTERS))]
        self._callbacks.append(ctypes.CFUNCTYPE(None, ctypes.c_int32)(lambda _: self._wait()))
        for name, callback in zip([*_REGISTERS, "barrier"], self._callbacks, strict=True):
            llvm.add_symbol(f"simt.{name}", ctypes.cast(callback, ctypes.c_void_p).value)
        ir = _for_cpu(module.ir)
        self._symbol = module.symbol
        self._meets = "@simt.barrier" in ir
        code = emit_object(ir, native_target())
        own = llvm.Target.from_triple(native_target().triple).create_target_machine()
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), own)
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        self._engine.finalize_object()

    def run(self, start: Launch, pointers: list[int]) -> None:
        address = self._engine.get_function_address(self._symbol)
        function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(pointers))(address)

        def one(place: tuple[int, ...]) -> None:
            self._place.numbers = place
            function(*pointers)

        count = prod(start.threads) if self._meets else 1
        self._barrier = threading.Barrier(count, timeout=TIMEOUT_S)
        with ThreadPoolExecutor(count) as pool:
            for block in itertools.product(*map(range, start.blocks)):
                threads = [(*block, *thread) for thread in itertools.product(*map(range, start.threads))]
                # The last thread first: what it reads before the others have written it must stand out.
                list(pool.map(one, threads[::-1]))

    def _register(self, number: int) -> object:
        return ctypes.CFUNCTYPE(ctypes.c_int32)(lambda: self._place.numbers[number])

    def _wait(self) -> None:
        self._barrier.wait()


def _for_cpu(ir: str) -> str:
    """One address space, no kernels, callbacks."""
    changes = {
        "define ptx_kernel void": "define void",
        "internal addrspace(3) global": "internal global",
        "ptr addrspace(3)": "ptr",
        "llvm.nvvm.read.ptx.sreg.": "simt.",
        "llvm.nvvm.barrier.cta.sync.aligned.all": "simt.barrier",
    }
    for before, after in changes.items():
        ir = ir.replace(before, after)
    return ir.replace("addrspacecast (ptr", "bitcast (ptr")
