"""Interpreter: runs a LoopNest one statement at a time. The slow oracle that the code generator is tested against.

Each statement and expression becomes a Python function once, of the values that names have at the moment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, assert_never

import numpy as np

from compiler.casting import cast
from compiler.dtype import DType
from compiler.elementary import place
from compiler.index import Index
from compiler.instruction import INSTRUCTIONS
from compiler.loop.ir import Block, Extent, For, If, Let, LoopNest, Stmt, Store
from compiler.scalar import Apply, Bound, Cast, Const, Dot, Expr, Guard, Load, Lookup, Pick
from compiler.scalar_ops import OPS
from compiler.symbol import size_at
from compiler.three_bytes import lengthen

Env = dict[str, int]
Memory = Mapping[str, np.ndarray]
Run = Callable[[Env], None]
Number = Callable[[Env], int]
Value = Callable[[Env], Any]


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
    run = _statement(nest.body, memory)
    with np.errstate(all="ignore"):
        run(env)


def _statement(stmt: Stmt, memory: Memory) -> Run:
    match stmt:
        case For(var, extent, _, body):
            return _loop(var, _count(extent), _statement(body, memory))
        case Let(var, value_index, _, body):
            return _let(var, _index(value_index), _statement(body, memory))
        case If(condition, then, otherwise):
            return _choice(_holds((condition,)), _statement(then, memory), _statement(otherwise, memory))
        case Store(buffer, indices, value):
            return _store(memory[buffer], _element(indices, memory[buffer]), _value(value, memory))
        case Block(statements):
            return _sequence([_statement(statement, memory) for statement in statements])
        case _:
            assert_never(stmt)


def _sequence(parts: list[Run]) -> Run:
    def run(env: Env) -> None:
        for part in parts:
            part(env)

    return run


def _loop(var: str, count: Number, body: Run) -> Run:
    def run(env: Env) -> None:
        for value in range(count(env)):
            env[var] = value
            body(env)

    return run


def _let(var: str, value: Number, body: Run) -> Run:
    def run(env: Env) -> None:
        env[var] = value(env)
        body(env)

    return run


def _choice(condition: Callable[[Env], bool], then: Run, otherwise: Run) -> Run:
    return lambda env: then(env) if condition(env) else otherwise(env)


def _store(array: np.ndarray, element: Callable[[Env], tuple[int, ...]], value: Value) -> Run:
    def run(env: Env) -> None:
        array[element(env)] = np.asarray(value(env)).astype(array.dtype)

    return run


def _count(extent: Extent) -> Number:
    limit = extent.limit
    if extent.bound is None:
        return lambda _: limit
    bound = _index(extent.bound)
    return lambda env: max(0, min(limit, bound(env)))


def _index(index: Index) -> Number:
    """The value of an index; one without quotients and products is a sum."""
    if not index.is_affine():
        return lambda env: int(index.evaluate(env))
    const, terms = index.const, [(str(name), factor) for name, factor in index.terms]
    if not terms:
        return lambda _: const
    if len(terms) == 1:
        ((name, factor),) = terms
        return lambda env: const + factor * env[name]

    def run(env: Env) -> int:
        total = const
        for name, factor in terms:
            total += factor * env[name]
        return total

    return run


def _holds(bounds: tuple[Bound, ...]) -> Callable[[Env], bool]:
    tests = [(b.low, _index(b.index), b.high) for b in bounds]
    return lambda env: all(low <= index(env) < high for low, index, high in tests)


def _element(indices: tuple[Index, ...], array: np.ndarray) -> Callable[[Env], tuple[int, ...]]:
    """The place of an element; raises IndexError where the array has none."""
    numbers, shape = [_index(i) for i in indices], array.shape
    if len(numbers) != len(shape):
        msg = f"{len(numbers)} indices into an array of shape {shape}"
        raise ValueError(msg)

    def run(env: Env) -> tuple[int, ...]:
        found = tuple([number(env) for number in numbers])
        for i, n in zip(found, shape, strict=True):
            if not 0 <= i < n:
                msg = f"access at {found} of an array of shape {shape}"
                raise IndexError(msg)
        return found

    return run


def _value(expr: Expr, memory: Memory) -> Value:
    match expr:
        case Const(number, dtype):
            known = _cast(np.asarray(number), dtype)
            return lambda _: known
        case Load(buffer, indices):
            return _load(memory[buffer], _element(indices, memory[buffer]))
        case Apply(op, args):
            return _applied(OPS[op].evaluate, [_value(a, memory) for a in args])
        case Guard(bounds, inside, outside):
            holds, yes, no = _holds(bounds), _value(inside, memory), _value(outside, memory)
            return lambda env: yes(env) if holds(env) else no(env)
        case Cast(inner, dtype):
            value = _value(inner, memory)
            return lambda env: _cast(value(env), dtype)
        case Pick(values, index, dtype):
            which, entries = _index(index), [dtype.numpy.type(v) for v in values]
            return lambda env: entries[which(env)]
        case Lookup():
            return _lookup(expr, memory)
        case Dot():
            return _dot(expr, memory)
        case _:
            assert_never(expr)


def _load(array: np.ndarray, element: Callable[[Env], tuple[int, ...]]) -> Value:
    """A stored element in the type that it is computed with in."""
    computed = DType.from_numpy(array.dtype).computed.numpy
    if computed == array.dtype:
        return lambda env: array[element(env)]
    if array.dtype == DType.F24.numpy:
        return lambda env: lengthen(np.asarray(array[element(env)]))[()]
    return lambda env: array[element(env)].astype(computed)


def _applied(operation: Callable[..., Any], args: list[Value]) -> Value:
    if len(args) == 2:
        first, second = args
        return lambda env: operation(first(env), second(env))
    return lambda env: operation(*[arg(env) for arg in args])


def _lookup(lookup: Lookup, memory: Memory) -> Value:
    name, extent = lookup.found.name, _index(Index.of(lookup.found.extent))
    value, inside = _value(lookup.value, memory), _value(lookup.inside, memory)

    def run(env: Env) -> Any:
        env[name] = int(place(value(env), extent(env)))
        return inside(env)

    return run


def _cast(value: Any, dtype: DType) -> Any:
    precision = np.dtype(np.float64) if dtype is DType.F64 else np.dtype(np.float32)
    return cast(value, dtype, precision)[()]


def _dot(dot: Dot, memory: Memory) -> Value:
    """One instruction, in one lane."""
    instruction = INSTRUCTIONS[dot.instruction]
    total, left, right = (_value(e, memory) for e in (dot.sum, dot.left, dot.right))

    def group(factor: Value, env: Env) -> np.ndarray:
        return np.asarray([factor({**env, dot.var: j}) for j in range(instruction.group)])

    return lambda env: instruction.evaluate(total(env), group(left, env), group(right, env))
