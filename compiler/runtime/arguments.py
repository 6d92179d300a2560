"""Arguments: the arrays of a call against what the model takes, and the sizes that they give its symbols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from compiler.errors import InputError
from compiler.index import Index
from compiler.runtime.image import TensorSpec
from compiler.symbol import Symbol, as_size

Array = np.ndarray[Any, Any]
Values = dict[str, int]
"""Of symbols, by name."""


def bind_symbols(
    symbols: Sequence[Symbol], inputs: Sequence[TensorSpec], arrays: Mapping[str, Array]
) -> Values:
    """The value of each symbol; arrays that are missing, or of another rank, are left for later checks.

    Raises InputError where two inputs disagree, or a value is out of range.
    """
    ranges = {symbol.name: symbol for symbol in symbols}
    values: Values = {}
    origin: dict[str, str] = {}
    for spec in inputs:
        array = arrays.get(spec.name)
        if array is None or np.ndim(array) != len(spec.shape):
            continue
        for size, given in zip(spec.shape, np.shape(array), strict=True):
            name = size.name if isinstance(size, Index) else None
            if name is None:
                continue
            symbol = ranges[name]
            if not symbol.low <= given <= symbol.high:
                msg = f"input {spec.name!r} has {name} = {given}; give a size from {symbol.low} to {symbol.high}"
                raise InputError(msg)
            if values.setdefault(name, given) != given:
                msg = (
                    f"input {spec.name!r} has {name} = {given}, and input {origin[name]!r} has {values[name]}; "
                    "give all inputs the same"
                )
                raise InputError(msg)
            origin.setdefault(name, spec.name)
    return values


class Arguments:
    """The arrays of a call in the order of the specs, prepared for many calls."""

    def __init__(self, specs: tuple[TensorSpec, ...], what: Literal["input", "output"]) -> None:
        """`what` they are, for messages."""
        self._specs, self._what = specs, what
        self._usual = [(spec.name, spec.shape, spec.dtype.numpy) for spec in specs]

    def check(self, arrays: Mapping[str, Array], sizes: Values) -> list[Array]:
        """The arrays, inputs made contiguous; raises InputError where one does not fit. `sizes`: of open dimensions."""
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
        return [_checked_array(spec, arrays, self._what, sizes) for spec in self._specs]


def _refuse_unknown(specs: tuple[TensorSpec, ...], arrays: Mapping[str, Array], what: str) -> None:
    unknown = sorted(set(arrays) - {spec.name for spec in specs})
    if unknown:
        msg = f"the model has no {what} {unknown[0]!r}; it has {', '.join(spec.name for spec in specs)}"
        raise InputError(msg)


def _checked_array(spec: TensorSpec, arrays: Mapping[str, Array], what: str, sizes: Values) -> Array:
    spec = _at(spec, sizes)
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


def _at(spec: TensorSpec, sizes: Values) -> TensorSpec:
    """The spec with the known symbols replaced; the same object where it has none."""
    if not sizes:
        return spec
    bindings = {name: Index.of(value) for name, value in sizes.items()}
    return replace(spec, shape=tuple(as_size(Index.of(n).substitute(bindings)) for n in spec.shape))


def _needed(spec: TensorSpec) -> str:
    return f"{spec.dtype.numpy.name} of shape [{', '.join(map(str, spec.shape))}]"
