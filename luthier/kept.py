"""Kept: the segments of a model that are there for later runs, up to a bound."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain

from compiler.frontend.segment import Given
from compiler.frontend.work import Work
from compiler.runtime.module import Module
from luthier.compiled import CompiledSegment
from luthier.values import Key, Value

_LOG = logging.getLogger("luthier.dynamic")
MOST_QUESTIONS = 8
"""Times as many keys as segments are kept: most say which value a segment must know, or that it is evaluated."""

Place = tuple[int, tuple[str, ...]]
"""What is left of a model, by number, and the values that are wanted of it."""


@dataclass(frozen=True, slots=True)
class Left:
    """What is left of a model, and the values that are wanted of it."""

    work: Work | None
    wanted: tuple[str, ...]

    @property
    def place(self) -> Place:
        """To look up by."""
        return (self.work.number if self.work else -1, self.wanted)


class Kept:
    """By key: a segment, or the value that has to be known before there can be one. By place: those for all sizes."""

    def __init__(self, model: str, most: int) -> None:
        """`model`: its name, for messages; `most`: segments with code."""
        self._model, self._most = model, most
        self._known: dict[Key, CompiledSegment | Given] = {}
        # Of those with code, the one that was used last is at the end.
        self._coded: OrderedDict[CompiledSegment, Key] = OrderedDict()
        self._for_all: dict[Place, list[CompiledSegment]] = {}
        self._warned = False
        self.given_up = 0
        """Segments with code that there was no room for."""

    @property
    def coded(self) -> int:
        """How many segments have code."""
        return len(self._coded) + sum(map(len, self._for_all.values()))

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
        return self._known.get(key)

    def touch(self, known: CompiledSegment) -> None:
        """A segment is used."""
        if known in self._coded:
            self._coded.move_to_end(known)

    def values_asked(self, place: Place) -> list[Given]:
        """The values on whose content it depends which segment for all sizes is found, in a certain order."""
        needed = (given for known in self._for_all.get(place, ()) for given in sorted(known.needed, key=repr))
        return list(dict.fromkeys(needed))

    def for_all(self, place: Place, values: Mapping[str, Value]) -> CompiledSegment | None:
        """A segment for all sizes that these values have."""
        return next(
            (known for known in self._for_all.get(place, ()) if known.sizes(values) is not None), None
        )

    def add(self, key: Key, known: CompiledSegment | Given) -> None:
        """Keep what a key stands for."""
        self._known[key] = known
        if isinstance(known, CompiledSegment) and known.is_final:
            self._coded[known] = key
            self._forget(known)
        if len(self._known) - len(self._coded) > MOST_QUESTIONS * self._most:
            del self._known[next(old for old, what in self._known.items() if what not in self._coded)]

    def add_for_all(self, place: Place, known: CompiledSegment) -> None:
        """Keep a segment for all sizes."""
        self._for_all.setdefault(place, []).append(known)
        self._forget(known)

    def drop(self, key: Key) -> None:
        """Forget a segment that was evaluated: there is one for all sizes."""
        self._known.pop(key, None)

    def close(self) -> None:
        """End the threads of all segments."""
        for known in chain(self._coded, *self._for_all.values()):
            known.close()

    def _forget(self, new: CompiledSegment) -> None:
        """Give up what is too much, but for what is new: of what was not used for long, that with the least code."""
        if self.coded <= self._most:
            return
        self._warn()
        self.given_up += 1
        coded = [known for known in self._coded if known is not new]
        if coded:
            least = min(coded[: len(coded) // 2 + 1], key=_kernels)
            del self._known[self._coded.pop(least)]
            return least.close()
        place, known = next((p, k) for p, some in self._for_all.items() for k in some if k is not new)
        self._for_all[place].remove(known)
        return known.close()

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
    return isinstance(known, CompiledSegment) and not known.is_final


def _kernels(known: CompiledSegment) -> int:
    return len(known.module.image.calls) if isinstance(known.module, Module) else 0
