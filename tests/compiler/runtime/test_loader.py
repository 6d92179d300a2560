"""Loading code into a process whose memory is in use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from compiler.codegen.llvm import emit_object
from compiler.codegen.team import emit_team
from compiler.errors import CompileError
from compiler.runtime.loader import LoadedProgram
from compiler.target import native_target
from examples.networks import filled

CODE = """
import ctypes, mmap, sys
import numpy as np
from compiler.pipeline import compile_program, load_graph, lower
from compiler.runtime.module import load_module
from compiler.schedule.source import NoSource
from compiler.target import native_target

GIB, NO_ACCESS, NO_RESERVE = 1 << 30, 0, 0x4000
blob = compile_program(lower(load_graph(sys.argv[1])), native_target(), 1, NoSource()).to_bytes()
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)


def reserved(size):
    return libc.mmap(None, size, NO_ACCESS, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE, -1, 0)


load_module(blob).close()  # whatever is loaded with the first code is there now
hole = reserved(8 * mmap.PAGESIZE)
far = reserved(3 * GIB)
while reserved(mmap.PAGESIZE) > far:
    pass  # there is no room left above
libc.munmap(ctypes.c_void_p(hole), ctypes.c_size_t(8 * mmap.PAGESIZE))
module = load_module(blob)
(y,) = module.run({module.inputs[0].name: np.ones(module.inputs[0].sizes(), np.float32)}).values()
assert np.isfinite(y).all()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is mapped as Linux does it")
def test_code_is_loaded_where_other_memory_leaves_a_hole(tmp_path: Path) -> None:
    """LLVM's older loader filled a hole, went on gigabytes below, and ended the process: calls do not reach so far."""
    model = filled("mobilenetv2", tmp_path)
    command = [sys.executable, "-c", CODE, str(model)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_code_without_a_function_is_refused() -> None:
    team = emit_object(emit_team(native_target()), native_target())
    with pytest.raises(CompileError, match=r"cannot be loaded: .*program_run.*; compile the model again"):
        LoadedProgram([team])
