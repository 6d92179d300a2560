"""Interpreter: runs a LoopNest one statement at a time. The slow oracle that the code generator is tested against."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

import numpy as np

from compiler.casting import cast
from compiler.dtype import DType
from compiler.elementary import place
from compiler.index import Index
from compiler.instruction import INSTRUCTIONS
from compiler.loop.ir import Block, Extent, For, If, Let, LoopNest, Stmt, Store
from compiler.scalar import Apply, Cast, Const, Dot, Expr, Guard, Load, Lookup, Pick
from compiler.scalar_ops import OPS
from compiler.symbol import size_at

Env = dict[str, int]


def interpret(
    nest: LoopNest, arrays: Mapping[str, np.ndarray], values: Mapping[str, int] | None = None
) -> None:
    """Run the nest on arrays of the buffers' shapes, by name (constants already packed); outputs are written.

    `values`: of the nest's symbols.

    Buffers of the nest's own are made here. Arithmetic is NumPy's, in the arrays' types.
    """
    memory: dict[str, np.ndarray] = dict(arrays)
    env = dict(values or {})
    for buffer in nest.buffers:
        shape = tuple(size_at(size, env) for size in buffer.shape)
        if buffer.name not in memory:
            memory[buffer.name] = np.zeros(shape, buffer.dtype.numpy)
        if memory[buffer.name].shape != shape:
            msg = f"buffer {buffer.name} has shape {memory[buffer.name].shape}, the nest needs {shape}"
            raise ValueError(msg)
    with np.errstate(all="ignore"):
        _run(nest.body, env, memory)


def _count(extent: Extent, env: Env) -> int:
    if extent.bound is None:
        return extent.limit
    return max(0, min(extent.limit, int(extent.bound.evaluate(env))))


def _run(stmt: Stmt, env: Env, memory: dict[str, np.ndarray]) -> None:
    match stmt:
        case For(var, extent, _, body):
            for value in range(_count(extent, env)):
                _run(body, {**env, var: value}, memory)
        case Let(var, value_index, _, body):
            _run(body, {**env, var: int(value_index.evaluate(env))}, memory)
        case If(c, then, otherwise):
            _run(then if c.low <= c.index.evaluate(env) < c.high else otherwise, env, memory)
        case Store(buffer, indices, value):
            stored = np.asarray(_value(value, env, memory)).astype(memory[buffer].dtype)
            memory[buffer][_place(indices, env, memory[buffer])] = stored
        case Block(statements):
            for statement in statements:
                _run(statement, env, memory)
        case _:
            assert_never(stmt)


def _place(indices: tuple[Any, ...], env: Env, array: np.ndarray) -> tuple[int, ...]:
    place = tuple(int(i.evaluate(env)) for i in indices)
    if any(not 0 <= i < n for i, n in zip(place, array.shape, strict=True)):
        msg = f"access at {place} of an array of shape {array.shape}"
        raise IndexError(msg)
    return place


def _value(expr: Expr, env: Env, memory: dict[str, np.ndarray]) -> Any:
    match expr:
        case Const(value, dtype):
            return _cast(np.asarray(value), dtype)
        case Load(buffer, indices):
            return _held(memory[buffer][_place(indices, env, memory[buffer])])
        case Apply(op, args):
            return OPS[op].evaluate(*(_value(a, env, memory) for a in args))
        case Guard(bounds, inside, outside):
            held = all(b.low <= b.index.evaluate(env) < b.high for b in bounds)
            return _value(inside if held else outside, env, memory)
        case Cast(value_expr, dtype):
            return _cast(_value(value_expr, env, memory), dtype)
        case Pick(values, index, dtype):
            return dtype.numpy.type(values[int(index.evaluate(env))])
        case Lookup(found, value_expr, inside):
            read = int(place(_value(value_expr, env, memory), int(Index.of(found.extent).evaluate(env))))
            return _value(inside, {**env, found.name: read}, memory)
        case Dot():
            return _dot(expr, env, memory)
        case _:
            assert_never(expr)


def _cast(value: Any, dtype: DType) -> Any:
    precision = np.dtype(np.float64) if dtype is DType.F64 else np.dtype(np.float32)
    return cast(value, dtype, precision)[()]


def _held(value: Any) -> Any:
    """A stored element in the type that it is computed with in."""
    return value.astype(DType.from_numpy(value.dtype).computed.numpy)


def _dot(dot: Dot, env: Env, memory: dict[str, np.ndarray]) -> Any:
    """One instruction, in one lane."""
    instruction = INSTRUCTIONS[dot.instruction]
    left, right = (
        np.asarray([_value(e, {**env, dot.var: j}, memory) for j in range(instruction.group)])
        for e in (dot.left, dot.right)
    )
    return instruction.evaluate(_value(dot.sum, env, memory), left, right)
