"""Kept: the segments of a model that are there for later runs, up to a bound."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Mapping
from itertools import chain

from compiler.frontend.segment import Given
from compiler.runtime.module import Module
from luthier.compiled import CompiledSegment
from luthier.evaluated import Evaluated
from luthier.values import Key, Value

_LOG = logging.getLogger("luthier.dynamic")
MOST_QUESTIONS = 8
"""Times as many keys as segments are kept: most say which value a segment must know, or that it is evaluated."""

Place = tuple[int, tuple[str, ...]]
"""What is left of a model, by number, and the values that are wanted of it."""


class Kept:
    """By key: a segment, or the value that has to be known before there can be one. By place: those for all sizes."""

    def __init__(self, model: str, most: int) -> None:
        """`model`: its name, for messages; `most`: segments with code."""
        self._model, self._most = model, most
        self._known: OrderedDict[Key, CompiledSegment | Given] = OrderedDict()
        self._for_all: dict[Place, list[CompiledSegment]] = {}
        self._warned = False

    @property
    def coded(self) -> int:
        """How many segments have code."""
        return sum(map(_has_code, self._known.values())) + sum(map(len, self._for_all.values()))

    @property
    def evaluated(self) -> int:
        """How many segments NumPy evaluates."""
        return sum(map(_is_evaluated, self._known.values()))

    def has_room(self) -> bool:
        """Whether code for another segment would push no other code out; says so where it would."""
        if self.coded < self._most:
            return True
        self._warn()
        return False

    def get(self, key: Key) -> CompiledSegment | Given | None:
        """What a key stands for."""
        found = self._known.get(key)
        if isinstance(found, CompiledSegment):
            self._known.move_to_end(key)
        return found

    def for_all(self, place: Place, values: Mapping[str, Value]) -> CompiledSegment | None:
        """A segment for all sizes that these values have."""
        return next(
            (known for known in self._for_all.get(place, ()) if known.sizes(values) is not None), None
        )

    def add(self, key: Key, known: CompiledSegment | Given) -> None:
        """Keep what a key stands for."""
        self._known[key] = known
        if len(self._known) > MOST_QUESTIONS * self._most:
            _close(self._known.popitem(last=False)[1])
        if _has_code(known):
            self._forget(known)

    def add_for_all(self, place: Place, known: CompiledSegment) -> None:
        """Keep a segment for all sizes."""
        self._for_all.setdefault(place, []).append(known)
        self._forget(known)

    def drop(self, key: Key) -> None:
        """Forget a segment that was evaluated: there is one for all sizes."""
        self._known.pop(key, None)

    def close(self) -> None:
        """End the threads of all segments."""
        for known in chain(self._known.values(), *self._for_all.values()):
            _close(known)

    def _forget(self, new: CompiledSegment | Given) -> None:
        """Give up what is too much, but for what is new: of what was not used for long, that with the least code."""
        if self.coded <= self._most:
            return
        self._warn()
        coded = [key for key, known in self._known.items() if _has_code(known) and known is not new]
        if coded:
            least = min(coded[: len(coded) // 2 + 1], key=lambda key: _kernels(self._known[key]))
            return _close(self._known.pop(least))
        place, known = next((p, k) for p, some in self._for_all.items() for k in some if k is not new)
        known.close()
        self._for_all[place].remove(known)
        return None

    def _warn(self) -> None:
        if not self._warned:
            self._warned = True
            _LOG.warning(
                "model %r met more than %d different sizes or values: code for those used least recently is given "
                "up and made again when they come back, and cheap parts of it are evaluated by NumPy instead",
                self._model,
                self._most,
            )


def _is_evaluated(known: CompiledSegment | Given) -> bool:
    return isinstance(known, CompiledSegment) and isinstance(known.module, Evaluated)


def _has_code(known: CompiledSegment | Given) -> bool:
    return isinstance(known, CompiledSegment) and not isinstance(known.module, Evaluated)


def _kernels(known: CompiledSegment | Given) -> int:
    if isinstance(known, CompiledSegment) and isinstance(known.module, Module):
        return len(known.module.image.calls)
    return 0


def _close(known: CompiledSegment | Given) -> None:
    if isinstance(known, CompiledSegment):
        known.close()
