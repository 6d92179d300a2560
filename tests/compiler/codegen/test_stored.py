"""What was just stored is read from registers, and never once something else lies there."""

from __future__ import annotations

import re

import numpy as np
import pytest

from compiler.codegen.kernel import Kernel, Param, Phase
from compiler.codegen.llvm import kernel_object
from compiler.codegen.nest import emit_nest
from compiler.dtype import DType
from compiler.index import Index
from compiler.loop.interpreter import interpret
from compiler.loop.ir import Buffer, Extent, For, LoopKind, LoopNest, Stmt, Store, block
from compiler.runtime.loader import LoadedKernel
from compiler.scalar import Const, Expr, Load, apply
from compiler.target import PRESETS, native_target

SIZE = 64
BUFFERS = (
    Buffer("x", (SIZE,), DType.F32, "global", "input"),
    Buffer("y", (SIZE,), DType.F32, "global", "output"),
    Buffer("t", (SIZE,), DType.F32, "local"),
)


def vector(lanes: int, buffer: str, at: Index | int, value: Expr) -> For:
    """buffer[at + lane] = value, in lanes."""
    return For("i", Extent(lanes), LoopKind.VECTOR, Store(buffer, (Index.of("i") + at,), value))


def read(buffer: str, at: Index | int = 0) -> Load:
    return Load(buffer, (Index.of("i") + at,))


def doubled(value: Expr) -> Expr:
    return apply("add", value, value)


def serial(name: str, size: int, *body: Stmt) -> For:
    return For(name, Extent(size), LoopKind.SERIAL, block(*body))


V = Index.of("v") * 16
CASES: dict[str, tuple[Stmt, ...]] = {
    "the same vector": (vector(16, "t", 0, read("x")), vector(16, "y", 0, doubled(read("t")))),
    "a part of it": (vector(32, "t", 0, read("x")), vector(16, "y", 0, read("t", 16))),
    "another one was stored over it": (
        vector(16, "t", 0, read("x")),
        vector(16, "t", 0, doubled(read("x"))),
        vector(16, "y", 0, read("t")),
    ),
    "part of it was stored over": (
        vector(16, "t", 0, read("x")),
        vector(8, "t", 4, Const(3.0)),
        vector(16, "y", 0, read("t")),
    ),
    "one element was stored over": (
        vector(16, "t", 0, read("x")),
        Store("t", (Index.of(5),), Const(3.0)),
        vector(16, "y", 0, read("t")),
    ),
    "it reaches over the end": (
        vector(16, "t", 16, read("x", 16)),
        vector(16, "t", 0, read("x")),
        vector(16, "y", 0, read("t", 8)),
    ),
    "a loop stores and reads": (
        serial("v", 4, vector(16, "t", V, read("x", V)), vector(16, "y", V, doubled(read("t", V)))),
    ),
    "the next turn of a loop reads": (
        vector(16, "t", 0, read("x")),
        serial("v", 3, vector(16, "y", V, read("t")), vector(16, "t", 0, doubled(read("t")))),
    ),
    "a loop stored over it": (
        vector(16, "t", 0, read("x")),
        serial("v", 3, vector(16, "t", 0, doubled(read("x", V)))),
        vector(16, "y", 0, read("t")),
    ),
    "a shorter vector, masked": (vector(16, "t", 0, read("x")), vector(11, "y", 0, read("t"))),
}


def native(nest: LoopNest, x: np.ndarray) -> np.ndarray:
    modules = emit_nest(nest, native_target())
    phases = tuple(Phase(m.symbol, kernel_object(m.ir, native_target()), 1) for m in modules)
    params = tuple(Param(b.name, b.role or "input", b.shape, b.dtype, None) for b in nest.params)
    y = np.zeros(SIZE, np.float32)
    loaded = LoadedKernel(Kernel(nest.name, phases, params), 1)
    try:
        loaded.run([{"x": x, "y": y}[p.name].ctypes.data for p in params])
    finally:
        loaded.close()
    return y


@pytest.mark.parametrize("name", CASES)
def test_machine_code_agrees_with_the_interpreter(name: str) -> None:
    nest = LoopNest("stored", BUFFERS, block(*CASES[name]))
    x = np.random.default_rng(0).standard_normal(SIZE).astype(np.float32)
    expected = {"x": x, "y": np.zeros(SIZE, np.float32)}
    interpret(nest, expected)
    np.testing.assert_array_equal(native(nest, x), expected["y"])


@pytest.mark.parametrize(
    ("name", "loads"),
    [
        ("the same vector", 1),
        ("a part of it", 1),
        ("another one was stored over it", 1),
        ("part of it was stored over", 2),
        ("a loop stores and reads", 1),
        ("a loop stored over it", 3),
    ],
)
def test_registers_are_read_where_they_hold_it(name: str, loads: int) -> None:
    """Loads in the code before LLVM optimises it: those of `x`, and of `t` where that must be."""
    (module,) = emit_nest(LoopNest("stored", BUFFERS, block(*CASES[name])), PRESETS["x86-64-v4"])
    assert len(re.findall(r"= load <\d+ x float>", module.ir)) == loads
