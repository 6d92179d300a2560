"""Arguments: the arrays of a call against what the model takes, and the sizes that they give its symbols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from compiler.errors import InputError
from compiler.index import Index
from compiler.runtime.image import TensorSpec
from compiler.seed import SEED, drawn_seed
from compiler.symbol import Symbol

Array = np.ndarray[Any, Any]
Values = dict[str, int]
"""Of symbols, by name."""


class Binding:
    """The values that the arrays of a call give symbols, prepared for many calls."""

    def __init__(self, symbols: Sequence[Symbol], inputs: Sequence[TensorSpec]) -> None:
        """Find the dimensions that are symbols."""
        known = {symbol.name: symbol for symbol in symbols}
        self._open: list[tuple[str, int, list[tuple[int, Symbol]]]] = []
        for spec in inputs:
            names = [size.name if isinstance(size, Index) else None for size in spec.shape]
            places = [(place, known[name]) for place, name in enumerate(names) if name is not None]
            if places:
                self._open.append((spec.name, len(spec.shape), places))

    def __call__(self, arrays: Mapping[str, Array]) -> Values:
        """The value of each symbol; arrays that are missing, or of another rank, are left for later checks.

        Raises InputError where two inputs disagree, or a value is out of range.
        """
        values: Values = {}
        for name, rank, places in self._open:
            shape = np.shape(arrays.get(name, ()))
            if len(shape) != rank:
                continue
            for place, symbol in places:
                given = shape[place]
                if not symbol.low <= given <= symbol.high:
                    msg = f"input {name!r} has {symbol.name} = {given}; give a size from {symbol.low} to {symbol.high}"
                    raise InputError(msg)
                if values.setdefault(symbol.name, given) != given:
                    msg = (
                        f"input {name!r} has {symbol.name} = {given}, and input {self._first(symbol)!r} has "
                        f"{values[symbol.name]}; give all inputs the same"
                    )
                    raise InputError(msg)
        return values

    def _first(self, symbol: Symbol) -> str:
        """The first input that has it."""
        return next(name for name, _, places in self._open if any(symbol is known for _, known in places))


class Arguments:
    """The arrays of a call in the order of the specs, prepared for many calls."""

    def __init__(self, specs: tuple[TensorSpec, ...], what: Literal["input", "output"]) -> None:
        """`what` they are, for messages."""
        self._specs, self._what = specs, what
        self._draws = any(spec.name == SEED for spec in specs)
        self._usual = [(spec.name, spec.shape, spec.dtype.numpy) for spec in specs]

    def check(self, arrays: Mapping[str, Array]) -> list[Array]:
        """The arrays, inputs made contiguous; raises InputError where one does not fit."""
        # The usual case, in a fifth of the time: of the right shape and type, contiguous, aligned and writeable.
        if len(arrays) == len(self._usual):
            ready = []
            for name, shape, dtype in self._usual:
                given = arrays.get(name)
                if (
                    type(given) is not np.ndarray
                    or given.shape != shape
                    or given.dtype != dtype
                    or not given.flags.carray
                ):
                    break
                ready.append(given)
            else:
                return ready
        if len(arrays) != len(self._specs) or any(spec.name not in arrays for spec in self._specs):
            _refuse_unknown(self._specs, arrays, self._what)
        if self._draws and SEED not in arrays:
            arrays = {**arrays, SEED: drawn_seed()}
        return [_checked_array(spec, arrays, self._what) for spec in self._specs]


def _refuse_unknown(specs: tuple[TensorSpec, ...], arrays: Mapping[str, Array], what: str) -> None:
    unknown = sorted(set(arrays) - {spec.name for spec in specs})
    if unknown:
        msg = f"the model has no {what} {unknown[0]!r}; it has {', '.join(spec.name for spec in specs)}"
        raise InputError(msg)


def _checked_array(spec: TensorSpec, arrays: Mapping[str, Array], what: str) -> Array:
    if spec.name not in arrays:
        msg = f"{what} {spec.name!r} is missing; give an array, {_needed(spec)}"
        raise InputError(msg)
    array = np.asarray(arrays[spec.name])
    if array.dtype != spec.dtype.numpy or array.shape != spec.shape:
        msg = f"{what} {spec.name!r} is {array.dtype.name} of shape {list(array.shape)}; give {_needed(spec)}"
        raise InputError(msg)
    if array.flags.c_contiguous and array.flags.aligned and (what == "input" or array.flags.writeable):
        return array
    if what == "input":
        return np.ascontiguousarray(array)
    msg = f"output {spec.name!r} must be a writeable, C-contiguous array; give {_needed(spec)}"
    raise InputError(msg)


def _needed(spec: TensorSpec) -> str:
    return f"{spec.dtype.numpy.name} of shape [{', '.join(map(str, spec.shape))}]"
