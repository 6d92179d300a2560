"""Values on their way through a model: arrays, sequences of them, and optionals that may have none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Union

import numpy as np
import numpy.typing as npt

from compiler.errors import InputError, LuthierError
from compiler.frontend.segment import Given, Kind, Known, TensorKind

Array = npt.NDArray[Any]
Key = tuple[Any, ...]
Value = Union[Array, Known, None, list["Value"]]
"""An array, one that is the same in every run of a segment, an optional without a value, or a sequence."""


def value_of(value: Any) -> Value:
    """What a caller gave."""
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        return [value_of(element) for element in value]
    return np.asarray(value)


def array_of(value: Value) -> Array:
    """The tensor; raises InputError where the value is none."""
    if isinstance(value, Known):
        return value.array
    if not isinstance(value, np.ndarray):
        msg = f"a tensor is needed where the value is {'a sequence' if value is not None else 'missing'}"
        raise InputError(msg)
    return value


def unknown(value: Value) -> Value:
    """The value as one that may differ from run to run."""
    return value.array if isinstance(value, Known) else value


def elements_of(value: Value) -> Sequence[Value]:
    """Of a sequence; nothing else has any."""
    return value if isinstance(value, list) else ()


def arrays_of(value: Value) -> Iterator[Array]:
    """All tensors in a value."""
    if isinstance(value, list):
        for element in value:
            yield from arrays_of(element)
    elif value is not None:
        yield array_of(value)


def fresh(value: Value, given: set[int]) -> Any:
    """What the caller may keep and change: no array twice, and none of those whose ids are `given`."""
    if isinstance(value, list):
        return [fresh(element, given) for element in value]
    if value is None:
        return None
    array = array_of(value)
    if isinstance(value, Known) or id(array) in given:
        return array.copy()
    given.add(id(array))
    return array


def value_at(values: Mapping[str, Value], given: Given) -> Value:
    """A value of a segment, or an element of one."""
    value = values[given.name]
    return value if given.element is None else elements_of(value)[given.element]


def is_open(values: Mapping[str, Value], given: Given) -> bool:
    """Whether there is such a value, and it is a tensor that may differ from run to run."""
    value = values.get(given.name)
    if given.element is not None:
        elements = elements_of(value)
        value = elements[given.element] if given.element < len(elements) else None
    return isinstance(value, np.ndarray)


def kind_of(value: Value, name: str, needed: set[Given], element: int | None = None) -> Kind:
    """What code is made for; `needed`: the values that it must know."""
    if value is None:
        return None
    if isinstance(value, list):
        return tuple(kind_of(inner, name, needed, place) for place, inner in enumerate(value))
    if isinstance(value, Known):
        return value.array
    if Given(name, element) in needed:
        known = value.copy()
        known.setflags(write=False)
        return known
    return TensorKind(value.shape, value.dtype)


def signature(value: Value) -> Key | None:
    """What two values have in common for which the same code runs; to look up by."""
    if value is None:
        return None
    if isinstance(value, list):
        return tuple(map(signature, value))
    if isinstance(value, Known):
        return value.content
    return (value.shape, value.dtype)


def stacked(arrays: Sequence[Array], loop: str, empty: tuple[tuple[int, ...], str] | None) -> Array:
    """What a loop collects, one after the other. `empty`: shape and type of one tensor, where that is known."""
    if arrays:
        shapes = {array.shape[1:] for array in arrays}
        if len(shapes) > 1:
            msg = f"loop {loop!r} collects tensors of shapes {sorted(shapes)}; it must not"
            raise InputError(msg)
        return np.concatenate(arrays) if len(arrays) > 1 else arrays[0]
    if empty is None:
        msg = (
            f"loop {loop!r} collects nothing, and the model does not say what it would; export it with shapes"
        )
        raise LuthierError(msg)
    return np.zeros((0, *empty[0]), empty[1])
