"""Scalar expressions: what one element of a tensor is computed from.

expr  ::= Const(value, dtype)
        | Load(buffer, indices)               one element of a buffer
        | Apply(op, args)                     op is a name of OPS
        | Guard(bounds, inside, outside)      `inside` where every bound holds; it is not evaluated elsewhere
        | Cast(value, dtype)
        | Pick(values, index)                 one of a table of literals
        | Lookup(found, value, inside)        `inside`, where `found` is the whole number `value`, put into its range
        | Dot(instruction, sum, left, right, var)   a short sum of products by one instruction; only in loop nests
bound ::= Bound(index, low, high)             low <= index < high
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import copysign
from operator import attrgetter, is_
from typing import Any, Union, assert_never

from compiler.dtype import DType
from compiler.index import Index, LookedUp
from compiler.index_json import divisor_from_json, divisor_json, index_from_json, index_json
from compiler.scalar_ops import OPS


@dataclass(frozen=True, slots=True)
class Const:
    """A literal. The two zeros are different literals, and a NaN is the same as another."""

    value: float | int
    dtype: DType = DType.F32

    def __eq__(self, other: object) -> bool:
        """Whether it is the same literal, not whether the numbers are equal."""
        if not isinstance(other, Const):
            return NotImplemented
        return self.dtype is other.dtype and self._exact == other._exact

    def __hash__(self) -> int:
        """Of the exact value."""
        return hash((self._exact, self.dtype))

    @property
    def _exact(self) -> float | int | str:
        value = self.value
        if value and value == value:
            return value
        return "nan" if value else f"{copysign(0.0, value)}"


@dataclass(frozen=True, slots=True)
class Load:
    """One element of a buffer; one index per dimension."""

    buffer: str
    indices: tuple[Index, ...]


@dataclass(frozen=True, slots=True)
class Apply:
    """An operation of OPS on its arguments."""

    op: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Bound:
    """low <= index < high."""

    index: Index
    low: int
    high: int


FAR = 1 << 62
"""Further from 0 than any index: the end of a Bound that is open on that side."""


def below(index: Index, extent: Index) -> Bound:
    """0 <= index < extent, of an index that is never negative where the extent depends on symbols."""
    if extent.constant is not None:
        return Bound(index, 0, extent.const)
    return Bound(index - extent, -FAR, 0)


@dataclass(frozen=True, slots=True)
class Guard:
    """`inside` where every bound holds, else `outside`; `inside` may read out of bounds elsewhere."""

    bounds: tuple[Bound, ...]
    inside: Expr
    outside: Expr

    @property
    def tests_reads(self) -> bool:
        """Whether a bound says which places may be read inside, not only which of two values is taken."""
        return not read_names(self.inside).isdisjoint({n for b in self.bounds for n in b.index.names()})


@dataclass(frozen=True, slots=True)
class Cast:
    """Conversion of the value to another element type."""

    value: Expr
    dtype: DType


@dataclass(frozen=True, slots=True)
class Pick:
    """`values[index]`: an entry of a constant matrix that an algorithm multiplies by.

    The product with an entry that is 0 is left out, also where the other factor is not finite.
    """

    values: tuple[float, ...]
    index: Index
    dtype: DType = DType.F32


@dataclass(frozen=True, slots=True)
class Lookup:
    """`inside`, where the name of `found` stands for the whole number `value`.

    A negative number counts from the end, as in ONNX and NumPy; what is out of range becomes the first or the last, so
    that nothing is read outside of a buffer whatever the values are (see `compiler.elementary.place`). The name is
    defined in `inside` alone, and no Lookup inside another has the same.
    """

    found: LookedUp
    value: Expr
    inside: Expr


@dataclass(frozen=True, slots=True)
class Dot:
    """`sum + left * right` added up over `var`, as an entry of compiler.instruction computes it.

    `left` and `right` read one element each; `var` runs over the group of the instruction, and occurs nowhere else.
    """

    instruction: str
    sum: Expr
    left: Load
    right: Load
    var: str


Expr = Union[Const, Load, Apply, Guard, Cast, Pick, Lookup, Dot]


def apply(op: str, *args: Expr) -> Apply:
    """Build an Apply; raises ValueError on an unknown operation or wrong arity."""
    if op not in OPS or OPS[op].arity != len(args):
        msg = f"no scalar operation {op!r} with {len(args)} arguments"
        raise ValueError(msg)
    return Apply(op, args)


def children(expr: Expr) -> tuple[Expr, ...]:
    """Direct sub-expressions, in order of evaluation."""
    return _CHILDREN[type(expr)](expr)


# By type, without a `match`: expressions are gone through millions of times in a compile.
_CHILDREN: Mapping[type, Callable[[Any], tuple[Expr, ...]]] = {
    Const: lambda _: (),
    Load: lambda _: (),
    Pick: lambda _: (),
    Apply: attrgetter("args"),
    Guard: attrgetter("inside", "outside"),
    Cast: lambda cast: (cast.value,),
    Lookup: attrgetter("value", "inside"),
    Dot: attrgetter("sum", "left", "right"),
}


def walk(expr: Expr) -> Iterator[Expr]:
    """The expression and everything below it, parents first."""
    todo = [expr]
    while todo:
        found = todo.pop()
        yield found
        todo += _CHILDREN[type(found)](found)[::-1]


def loads(expr: Expr) -> tuple[Load, ...]:
    """All loads, in order of appearance."""
    return tuple([e for e in walk(expr) if type(e) is Load])


def read_names(expr: Expr) -> set[str]:
    """The axes and loops on which the places depend that are read."""
    return {name for load in loads(expr) for index in load.indices for name in index.names()}


def lookup_names(expr: Expr) -> dict[str, frozenset[str]]:
    """The axes and loops on which each number that is looked up depends, by its name."""
    found: dict[str, frozenset[str]] = {}
    for e in walk(expr):
        if isinstance(e, Lookup):
            indices = [index for load in loads(e.value) for index in load.indices]
            names = [index.names() for index in indices]
            names += [found.get(other.name, frozenset()) for index in indices for other in index.looked_up()]
            found[e.found.name] = frozenset[str]().union(*names)
    return found


def rewrite(expr: Expr, rule: Callable[[Expr], Expr | None]) -> Expr:
    """Bottom-up rewrite: `rule` gives a replacement or None; unchanged trees come back as the same object."""
    match expr:
        case Const() | Load() | Pick():
            rebuilt: Expr = expr
        case Apply(op, args):
            new = tuple([rewrite(a, rule) for a in args])
            rebuilt = expr if all(map(is_, new, args)) else Apply(op, new)
        case Guard(bounds, inside, outside):
            a, b = rewrite(inside, rule), rewrite(outside, rule)
            rebuilt = expr if a is inside and b is outside else Guard(bounds, a, b)
        case Cast(value, dtype):
            v = rewrite(value, rule)
            rebuilt = expr if v is value else Cast(v, dtype)
        case Lookup(found, value, inside):
            v, i = rewrite(value, rule), rewrite(inside, rule)
            rebuilt = expr if v is value and i is inside else Lookup(found, v, i)
        case Dot():
            rebuilt = _rewrite_dot(expr, rule)
        case _:
            assert_never(expr)
    replaced = rule(rebuilt)
    return rebuilt if replaced is None else replaced


def _rewrite_dot(dot: Dot, rule: Callable[[Expr], Expr | None]) -> Dot:
    total, left, right = (rewrite(e, rule) for e in (dot.sum, dot.left, dot.right))
    if not isinstance(left, Load) or not isinstance(right, Load):
        msg = f"an instruction reads elements, not {left} and {right}"
        raise ValueError(msg)
    same = total is dot.sum and left is dot.left and right is dot.right
    return dot if same else Dot(dot.instruction, total, left, right, dot.var)


def map_indices(expr: Expr, function: Callable[[Index], Index]) -> Expr:
    """Apply a function to every index of every Load and Bound, and to every extent that depends on symbols."""

    def rule(e: Expr) -> Expr | None:
        if isinstance(e, Load):
            indices = tuple([function(i) for i in e.indices])
            return None if all(map(is_, indices, e.indices)) else Load(e.buffer, indices)
        if isinstance(e, Pick):
            index = function(e.index)
            return None if index is e.index else Pick(e.values, index, e.dtype)
        if isinstance(e, Guard):
            new = [function(b.index) for b in e.bounds]
            if all(index is b.index for index, b in zip(new, e.bounds, strict=True)):
                return None
            bounds = tuple(Bound(index, b.low, b.high) for index, b in zip(new, e.bounds, strict=True))
            return Guard(bounds, e.inside, e.outside)
        if isinstance(e, Lookup) and isinstance(e.found.extent, Index):
            extent = function(e.found.extent)
            found = LookedUp(e.found.name, extent if extent.constant is None else extent.const)
            return None if extent is e.found.extent else Lookup(found, e.value, e.inside)
        return None

    return rewrite(expr, rule)


def substitute(expr: Expr, bindings: Mapping[str, Index]) -> Expr:
    """Replace names in every index."""
    return map_indices(expr, lambda index: index.substitute(bindings))


def rename_lookups(expr: Expr, names: Iterator[str]) -> Expr:
    """Give every Lookup the next name, parents first, what is looked up before what is read with it."""
    match expr:
        case Lookup(found, value, inside):
            new = LookedUp(next(names), found.extent)
            value = rename_lookups(value, names)
            return Lookup(new, value, rename_lookups(substitute(inside, {found.name: Index.of(new)}), names))
        case Const() | Load() | Pick() | Dot():
            return expr
        case Apply(op, args):
            return Apply(op, tuple(rename_lookups(a, names) for a in args))
        case Guard(bounds, inside, outside):
            return Guard(bounds, rename_lookups(inside, names), rename_lookups(outside, names))
        case Cast(value, dtype):
            return Cast(rename_lookups(value, names), dtype)
        case _:
            assert_never(expr)


def rename_buffers(expr: Expr, names: Mapping[str, str]) -> Expr:
    """Rename the buffers of every Load."""
    return rewrite(
        expr, lambda e: Load(names.get(e.buffer, e.buffer), e.indices) if isinstance(e, Load) else None
    )


def expr_text(expr: Expr) -> str:
    """One line of text, stable across platforms."""
    match expr:
        case Const(value, _):
            return repr(value)
        case Load(buffer, indices):
            return f"{buffer}[{', '.join(map(str, indices))}]"
        case Apply(op, args):
            return f"{op}({', '.join(map(expr_text, args))})"
        case Guard(bounds, inside, outside):
            tests = " and ".join(f"{b.low} <= {b.index} < {b.high}" for b in bounds)
            return f"({expr_text(inside)} if {tests} else {expr_text(outside)})"
        case Cast(value, dtype):
            return f"{dtype.value}({expr_text(value)})"
        case Pick(values, index):
            return f"pick[{len(values)}][{index}]"
        case Lookup(found, value, inside):
            return f"({expr_text(inside)} with {found.name} = {expr_text(value)} in 0..{found.extent})"
        case Dot(name, total, left, right, var):
            return f"{name}({expr_text(total)}, {expr_text(left)}, {expr_text(right)} over {var})"
        case _:
            assert_never(expr)


def expr_json(expr: Expr) -> Any:
    """Canonical JSON form; floats are written as C99 hexadecimal so that no bit is lost."""
    match expr:
        case Const(value, dtype):
            return ["const", value.hex() if isinstance(value, float) else value, dtype.value]
        case Load(buffer, indices):
            return ["load", buffer, [index_json(i) for i in indices]]
        case Apply(op, args):
            return ["apply", op, *map(expr_json, args)]
        case Guard(bounds, inside, outside):
            tests = [[index_json(b.index), b.low, b.high] for b in bounds]
            return ["guard", tests, expr_json(inside), expr_json(outside)]
        case Cast(value, dtype):
            return ["cast", expr_json(value), dtype.value]
        case Pick(values, index, dtype):
            return ["pick", [v.hex() for v in values], index_json(index), dtype.value]
        case Lookup(found, value, inside):
            return ["lookup", found.name, divisor_json(found.extent), expr_json(value), expr_json(inside)]
        case Dot():
            msg = "an instruction is chosen by a schedule; a workload has none"
            raise ValueError(msg)
        case _:
            assert_never(expr)


def expr_from_json(data: Any) -> Expr:
    """Inverse of `expr_json`; raises ValueError on anything else."""
    match data:
        case ["const", value, str(dtype)]:
            return Const(float.fromhex(value) if isinstance(value, str) else int(value), DType(dtype))
        case ["load", str(buffer), list(indices)]:
            return Load(buffer, tuple(index_from_json(i) for i in indices))
        case ["apply", str(op), *args]:
            return apply(op, *(expr_from_json(a) for a in args))
        case ["guard", list(tests), inside, outside]:
            bounds = tuple(Bound(index_from_json(i), int(lo), int(hi)) for i, lo, hi in tests)
            return Guard(bounds, expr_from_json(inside), expr_from_json(outside))
        case ["cast", value, str(dtype)]:
            return Cast(expr_from_json(value), DType(dtype))
        case ["pick", list(values), index, str(dtype)]:
            return Pick(tuple(float.fromhex(v) for v in values), index_from_json(index), DType(dtype))
        case ["lookup", str(name), extent, value, inside]:
            found = LookedUp(name, divisor_from_json(extent))
            return Lookup(found, expr_from_json(value), expr_from_json(inside))
        case _:
            msg = f"not a scalar expression: {data!r}"
            raise ValueError(msg)
