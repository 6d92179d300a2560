"""Interpreter: runs a LoopNest one statement at a time. The slow oracle that the code generator is tested against.

A nest becomes the text of a Python function, of which names are variables. An access that leaves its array is an error:

    for i in 0..4:                     for v0 in range(4):
      if 1 <= i < 3:            →          if 1 <= v0 < 3:
        y[i] = add(x[i - 1], 2)                o1[v0] = (o0[t0] if 0 <= (t0 := v0 - 1) < 4 else outside(...)) + o2
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NoReturn, assert_never

import numpy as np

from compiler.casting import cast
from compiler.dtype import DType
from compiler.elementary import place
from compiler.index import Atom, FloorDiv, Index, LookedUp, Times
from compiler.instruction import INSTRUCTIONS
from compiler.loop.ir import Block, Extent, For, If, Let, LoopNest, Stmt, Store, walk_statements
from compiler.scalar import Apply, Bound, Cast, Const, Dot, Expr, Guard, Load, Lookup, Pick
from compiler.scalar_ops import OPS
from compiler.symbol import size_at
from compiler.three_bytes import lengthen

_OPERATORS = {"add": "+", "sub": "-", "mul": "*", "less": "<", "less_equal": "<=", "equal": "=="}
"""Of NumPy's numbers, which take a tenth of the time of its functions."""
_MOST_LOOPS = 16
"""Loops of a function: Python takes 20."""
_MOST_DEEP = 40
"""Parentheses of an expression: Python takes 200."""


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
    stored = {stmt.buffer for stmt in walk_statements(nest.body) if isinstance(stmt, Store)}
    writer = _Writer({n: array if n in stored else _computed(array) for n, array in memory.items()})
    run = writer.function(nest.body, env)
    with np.errstate(all="ignore"):
        run()


def _computed(array: np.ndarray) -> np.ndarray:
    """What is only read, in the type that it is computed with in: once instead of element by element."""
    if array.dtype == DType.F24.numpy:
        return np.asarray(lengthen(array))
    return array.astype(DType.from_numpy(array.dtype).computed.numpy, copy=False)


def _outside(array: np.ndarray, found: tuple[int, ...]) -> NoReturn:
    msg = f"access at {found} of an array of shape {array.shape}"
    raise IndexError(msg)


class _Writer:
    """Lines of the function so far, and the objects that they name."""

    def __init__(self, memory: Mapping[str, np.ndarray]) -> None:
        self._memory = memory
        self._lines: list[str] = []
        self._deep, self._loops = 0, 0
        self._variables: dict[str, str] = {}
        self._objects: dict[str, Any] = {"outside": _outside, "place": place, "asarray": np.asarray}
        self._known: dict[int, str] = {}
        self._looked_up: dict[str, None] = {}
        self._temporaries = 0

    def function(self, body: Stmt, env: Mapping[str, int]) -> Callable[[], None]:
        """The function that runs a statement under values of symbols."""
        self._line("def run():")
        self._deep += 1
        for name, value in env.items():
            self._line(f"{self._variable(name)} = {value}")
        start = len(self._lines)
        self._statement(body)
        self._lines[start:start] = [f"    {name} = 0" for name in self._looked_up]
        namespace = dict(self._objects)
        exec(compile("\n".join(self._lines), "<nest>", "exec"), namespace)  # names are ours, never a model's
        run: Callable[[], None] = namespace["run"]
        return run

    def _line(self, text: str) -> None:
        self._lines.append("    " * self._deep + text)

    def _variable(self, name: str) -> str:
        return self._variables.setdefault(name, f"v{len(self._variables)}")

    def _temporary(self) -> str:
        self._temporaries += 1
        return f"t{self._temporaries}"

    def _object(self, value: Any) -> str:
        """The name of an object, which is the same for the same one."""
        name = self._known.setdefault(id(value), f"o{len(self._known)}")
        self._objects[name] = value
        return name

    # --- statements

    def _statement(self, stmt: Stmt) -> None:
        match stmt:
            case For(var, extent, _, body):
                self._loop(var, extent, body)
            case Let(var, value, _, body):
                self._line(f"{self._variable(var)} = {self._index(value)}")
                self._statement(body)
            case If(condition, then, otherwise):
                self._line(f"if {self._holds((condition,))}:")
                self._inside(then)
                self._line("else:")
                self._inside(otherwise)
            case Store(buffer, indices, value):
                array = self._memory[buffer]
                places = self._places(indices, array)
                self._line(f"value = {self._value(value)}")
                self._line(f"if not ({self._tests(places, array)}): {self._refused(indices, array)}")
                self._line(f"{self._object(array)}[{_subscript(places)}] = value")
            case Block(statements):
                for statement in statements:
                    self._statement(statement)
                if not statements:
                    self._line("pass")
            case _:
                assert_never(stmt)

    def _inside(self, stmt: Stmt) -> None:
        self._deep += 1
        self._statement(stmt)
        self._deep -= 1

    def _loop(self, var: str, extent: Extent, body: Stmt) -> None:
        count = str(extent.limit)
        if extent.bound is not None:
            count = f"max(0, min({count}, {self._index(extent.bound)}))"
        self._line(f"for {self._variable(var)} in range({count}):")
        self._loops += 1
        if self._loops % _MOST_LOOPS:
            self._inside(body)
        else:
            self._deep += 1
            name = self._temporary()
            self._line(f"def {name}():")
            self._inside(body)
            self._line(f"{name}()")
            self._deep -= 1
        self._loops -= 1

    # --- whole numbers

    def _index(self, index: Index) -> str:
        terms = [self._atom(a) if factor == 1 else f"{factor} * {self._atom(a)}" for a, factor in index.terms]
        if index.const or not terms:
            terms.append(str(index.const))
        return " + ".join(terms)

    def _atom(self, atom: Atom) -> str:
        match atom:
            case str():
                return self._variable(atom)
            case LookedUp():
                return self._variable(atom.name)
            case Times(factors):
                return "(" + " * ".join(map(self._atom, factors)) + ")"
        divisor = str(atom.divisor) if isinstance(atom.divisor, int) else f"({self._index(atom.divisor)})"
        operator = "//" if isinstance(atom, FloorDiv) else "%"
        return f"(({self._index(atom.value)}) {operator} {divisor})"

    def _holds(self, bounds: tuple[Bound, ...]) -> str:
        return " and ".join(f"{b.low} <= {self._index(b.index)} < {b.high}" for b in bounds) or "True"

    # --- elements

    def _places(self, indices: tuple[Index, ...], array: np.ndarray) -> list[tuple[str, str]]:
        """A variable for each index of an element, and the text of it."""
        if len(indices) != len(array.shape):
            msg = f"{len(indices)} indices into an array of shape {array.shape}"
            raise ValueError(msg)
        return [(self._temporary(), self._index(index)) for index in indices]

    def _tests(self, places: list[tuple[str, str]], array: np.ndarray) -> str:
        tests = (
            f"0 <= ({name} := {text}) < {n}" for (name, text), n in zip(places, array.shape, strict=True)
        )
        return " and ".join(tests) or "True"

    def _refused(self, indices: tuple[Index, ...], array: np.ndarray) -> str:
        found = "".join(f"{self._index(i)}, " for i in indices)
        return f"outside({self._object(array)}, ({found}))"

    # --- values

    def _value(self, expr: Expr) -> str:
        return self._measured(expr)[0]

    def _measured(self, expr: Expr) -> tuple[str, int]:
        """The text of an expression, and how deep its parentheses are; where too deep, it is a function of its own."""
        text, deep = self._text(expr)
        if deep < _MOST_DEEP:
            return text, deep
        name = self._temporary()
        self._line(f"def {name}():")
        if self._looked_up:
            self._line(f"    nonlocal {', '.join(self._looked_up)}")
        self._line(f"    return {text}")
        return f"{name}()", 1

    def _text(self, expr: Expr) -> tuple[str, int]:
        match expr:
            case Const(number, dtype):
                return self._object(_cast(np.asarray(number), dtype)), 0
            case Load(buffer, indices):
                return self._load(indices, self._memory[buffer]), 4
            case Apply(op, args):
                return self._applied(op, [self._measured(a) for a in args])
            case Guard(bounds, inside, outside):
                (yes, a), (no, b) = self._measured(inside), self._measured(outside)
                return f"({yes} if {self._holds(bounds)} else {no})", 1 + max(a, b, 4)
            case Cast(inner, dtype):
                text, deep = self._measured(inner)
                return f"{self._object(partial(_cast, dtype=dtype))}({text})", 1 + deep
            case Pick(values, index, dtype):
                entries = [dtype.numpy.type(v) for v in values]
                return f"{self._object(entries)}[{self._index(index)}]", 4
            case Lookup(found, looked_up, inside):
                asked, deep = self._measured(looked_up)
                extent, name = self._index(Index.of(found.extent)), self._variable(found.name)
                self._looked_up[name] = None
                within, deeper = self._measured(inside)
                found_at = f"({name} := int(place({asked}, {extent}))) is not None"
                return f"({within} if {found_at} else None)", 4 + max(deep, deeper)
            case Dot():
                return self._dot(expr)
            case _:
                assert_never(expr)

    def _load(self, indices: tuple[Index, ...], array: np.ndarray) -> str:
        """A stored element in the type that it is computed with in."""
        places = self._places(indices, array)
        element = f"{self._object(array)}[{_subscript(places)}]"
        computed = DType.from_numpy(array.dtype).computed.numpy
        if array.dtype == DType.F24.numpy:
            element = f"{self._object(lengthen)}(asarray({element}))[()]"
        elif computed != array.dtype:
            element = f"{element}.astype({self._object(computed)})"
        return f"({element} if {self._tests(places, array)} else {self._refused(indices, array)})"

    def _applied(self, op: str, args: list[tuple[str, int]]) -> tuple[str, int]:
        deep = 1 + max(deep for _, deep in args)
        texts = [text for text, _ in args]
        if op in _OPERATORS:
            return f"({texts[0]} {_OPERATORS[op]} {texts[1]})", deep
        return f"{self._object(OPS[op].evaluate)}({', '.join(texts)})", deep

    def _dot(self, dot: Dot) -> tuple[str, int]:
        """One instruction, in one lane."""
        instruction = INSTRUCTIONS[dot.instruction]
        total, deep = self._measured(dot.sum)
        groups = []
        for factor in (dot.left, dot.right):
            texts = []
            for member in range(instruction.group):
                self._variables[dot.var] = str(member)
                text, deeper = self._measured(factor)
                texts.append(text)
                deep = max(deep, deeper)
            groups.append(f"asarray([{', '.join(texts)}])")
        del self._variables[dot.var]
        return f"{self._object(instruction.evaluate)}({total}, {groups[0]}, {groups[1]})", 3 + deep


def _subscript(places: list[tuple[str, str]]) -> str:
    return ", ".join(name for name, _ in places) or "()"


def _cast(value: Any, dtype: DType) -> Any:
    precision = np.dtype(np.float64) if dtype is DType.F64 else np.dtype(np.float32)
    return cast(value, dtype, precision)[()]
