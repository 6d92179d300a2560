"""Nests: the loops around a Workload's anchor under many Schedules of one form, as arrays for the features.

The path leads from the outermost loop of the stage that the anchor is attached to (if any) to the anchor's innermost
loop. A span says over how many values an axis runs inside a loop, and from spans follow the elements of each buffer
that the inside touches. Everything has a leading dimension over the Schedules, which differ in numbers only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from compiler.index import Atom, Divisor, FloorDiv, Index, LookedUp, Mod, Times
from compiler.scalar import lookup_names
from compiler.symbol import static
from compiler.target import LINE_BYTES, PAGE_BYTES
from compiler.workload.ir import Operand, Stage, Workload, stage_loads

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
AccessClass = Literal["input", "constant", "output"]


@dataclass(frozen=True)
class Access:
    """How the anchor reads or writes a buffer. The leading dimension is 1 where all Schedules agree.

    An index is a sum of terms `scale * (value // divisor % modulus)`, where a value is linear in the axes.

    Attributes:
        matrix: shape (n or 1, n_terms, n_axes), steps of each term's value per step of an axis.
        terms: the numbers of the terms.
        sizes, strides: of the buffer in elements, shape (n or 1, n_dims).
    """

    kind: AccessClass
    buffer: str
    matrix: Array
    terms: Terms
    sizes: Array
    strides: Array
    element_bytes: int


@dataclass(frozen=True)
class Terms:
    """Terms of the indices of an access. `divisor` is 1 and `modulus` infinite where there is none.

    Attributes:
        scale: shape (n_dims, n_terms), 0 where a term belongs to another dimension.
        divisor, modulus: shape (n_terms,).
    """

    scale: Array
    divisor: Array
    modulus: Array

    @staticmethod
    def plain(dims: int) -> Terms:
        """One term for each dimension, its value."""
        return Terms(np.eye(dims), np.ones(dims), np.full(dims, np.inf))

    def reach(self, values: Array) -> Array:
        """How far each dimension goes while the values go so far, shape (..., n_terms) to (..., n_dims).

        Values begin at multiples of their divisors, as blocks do.
        """
        quotients = np.ceil((values + 1.0) / self.divisor) - 1.0
        whole = np.where(self.divisor == 1.0, values, quotients)
        return np.asarray(np.minimum(whole, self.modulus - 1.0) @ self.scale.T)

    def moved(self, steps: Array, limits: Array) -> Array:
        """Mean step of each dimension, of loops that move the values by `steps`; shapes (..., n_terms), (..., 1)."""
        within = (self.divisor > 1.0) & (steps * limits <= self.divisor)
        quotients = np.where(within, 0.0, steps / self.divisor)
        again = np.isfinite(self.modulus) & (
            quotients % np.where(np.isfinite(self.modulus), self.modulus, 1.0) == 0.0
        )
        return np.asarray(np.where(again, 0.0, quotients) @ self.scale.T)


@dataclass(frozen=True)
class Nests:
    """The paths of n Schedules and what their loops touch.

    Attributes:
        limits: shape (n, n_loops), outermost first.
        vector, unrolled, parallel, reduces: whether a loop is, shape (n, n_loops).
        steps: shape (n, n_loops, n_axes), how far a loop moves each axis with one iteration.
        spans: shape (n, n_loops + 1, n_axes), values of each axis inside loops[d:] (1 in the last row).
        packed: buffers that lie in the order in which they are read.
        loops, outer_loops: of the path, and those of them that belong to the stages around the anchor, shape (n,).
        region: elements of the anchor's result that are computed where it is attached, shape (n,); 0 where it is not.
        materialised: results that are stored beside the outputs, shape (n,).
        instruction: that adds groups of products, "" without one.
    """

    accesses: tuple[Access, ...]
    limits: Array
    vector: Flags
    unrolled: Flags
    parallel: Flags
    reduces: Flags
    steps: Array
    spans: Array
    packed: frozenset[str]
    loops: Array
    outer_loops: Array
    region: Array
    materialised: Array
    instruction: str = ""
    _known: dict[tuple[str, int], Array] = field(default_factory=dict, repr=False, compare=False)

    @property
    def form(self) -> tuple[object, ...]:
        """Equal where two can be joined."""
        read = tuple((a.kind, a.buffer, a.matrix.shape[1:], a.element_bytes) for a in self.accesses)
        return self.packed, self.instruction, read

    def elements(self, access: Access) -> Array:
        """Distinct elements that the inside of loops[d:] touches, shape (n, n_loops + 1)."""
        return np.asarray(self._extents(access).prod(axis=2))

    def line_bytes(self, access: Access) -> Array:
        """Bytes of the cache lines that the inside of loops[d:] touches, shape (n, n_loops + 1)."""
        return np.asarray(self._once("lines", access, self._lines)[0])

    def held_bytes(self, access: Access) -> Array:
        """Bytes of a cache that those lines take, shape (n, n_loops + 1).

        More than they have where they fall into few of its sets, as those a power of two apart do. Which set that is
        is known within a page only: where pages lie is up to the system (Hennessy and Patterson, Computer Architecture,
        appendix B).
        """
        touched, sets = self._once("lines", access, self._lines)
        return np.asarray(touched + np.maximum(0.0, touched - sets) * (PAGE_BYTES / sets - 1.0))

    def _lines(self, access: Access) -> Array:
        """Bytes of the lines, and of those of a page whose sets they fall into, shape (2, n, n_loops + 1)."""
        extents = self._extents(access)
        if access.buffer in self.packed or not access.sizes.shape[1]:
            together = extents.prod(axis=2) * access.element_bytes
            return np.stack([together, np.full_like(together, PAGE_BYTES)])
        strides = self._compact(access) if access.kind == "output" else access.strides
        steps = np.rint(strides * access.element_bytes).astype(np.int64)
        run = np.full(extents.shape[:2], float(access.element_bytes))
        runs, places, apart = np.ones_like(run), np.ones_like(run), np.zeros(run.shape, dtype=np.int64)
        for dim in reversed(range(extents.shape[2])):
            many, step = extents[:, :, dim], np.broadcast_to(steps[:, dim, None], run.shape)
            beside = (step <= _whole_lines(run)) & (runs == 1.0)
            far = ~beside & (many > 1)
            run = np.where(beside, step * (many - 1) + run, run)
            runs = np.where(far, runs * many, runs)
            places = np.where(far, places * np.minimum(many, PAGE_BYTES // np.gcd(step, PAGE_BYTES)), places)
            apart = np.where(far, np.gcd(apart, step), apart)
        places = np.minimum(places, PAGE_BYTES // np.maximum(1, np.gcd(apart, PAGE_BYTES)))
        lines = _whole_lines(run)
        return np.stack([lines * runs, np.minimum(PAGE_BYTES, lines * places)])

    def strides(self, access: Access) -> Array:
        """Elements between two iterations of each loop, shape (n, n_loops); in a packed buffer 1 where it moves.

        Results that are kept where they are computed lie as close as their region allows.
        """
        return self._once("strides", access, self._strides)

    def _strides(self, access: Access) -> Array:
        values = np.abs(self.steps @ access.matrix.swapaxes(1, 2))
        strides = self._compact(access) if access.kind == "output" else access.strides
        moved = (access.terms.moved(values, self.limits[:, :, None]) @ strides[:, :, None])[:, :, 0]
        return np.asarray(np.minimum(moved, 1.0) if access.buffer in self.packed else moved)

    def _compact(self, access: Access) -> Array:
        """Strides of the anchor's result, shape (n, n_dims)."""
        n, loops = self.limits.shape
        begin = (loops - self.loops + self.outer_loops).astype(np.intp)
        region = self._extents(access)[np.arange(n), begin]
        ones = np.ones((n, 1))
        inside = np.cumprod(np.concatenate([ones, region[:, :0:-1]], axis=1), axis=1)[:, ::-1]
        return np.asarray(np.where(self.region[:, None] > 0, inside, access.strides))

    def along_last(self) -> NDArray[np.bool_]:
        """Whether a loop moves an axis that the innermost one moves too, shape (n, n_loops)."""
        return np.asarray(((self.steps > 0) & (self.steps[:, -1:] > 0)).any(axis=2))

    def _extents(self, access: Access) -> Array:
        """Places of each dimension that the inside of loops[d:] touches, shape (n, n_loops + 1, n_dims)."""
        return self._once("extents", access, self._touched)

    def _touched(self, access: Access) -> Array:
        reached = 1.0 + access.terms.reach((self.spans - 1.0) @ access.matrix.swapaxes(1, 2))
        # Far apart, as the gates of a joined product are, places are fewer than what lies between the outermost.
        moves = (access.terms.scale > 0) @ (access.matrix > 0).astype(np.float64) > 0
        places = np.rint(np.exp2(np.log2(self.spans) @ moves.astype(np.float64).swapaxes(1, 2)))
        return np.asarray(np.minimum(access.sizes[:, None, :], np.minimum(reached, places)))

    def _once(self, what: str, access: Access, compute: Callable[[Access], Array]) -> Array:
        """A value that several features ask for."""
        key = (what, id(access))
        if key not in self._known:
            self._known[key] = compute(access)
        return self._known[key]


def _whole_lines(size_bytes: Array) -> Array:
    return np.asarray(np.ceil(size_bytes / LINE_BYTES) * LINE_BYTES)


def joined(parts: Sequence[Nests]) -> Nests:
    """The Schedules of all parts, which have one form; shorter paths get loops of one iteration around them."""
    if len(parts) == 1:
        return parts[0]
    most = max(part.limits.shape[1] for part in parts)
    more = [most - part.limits.shape[1] for part in parts]

    def outside(arrays: Sequence[NDArray[Any]], value: Any) -> NDArray[Any]:
        sizes = [(len(a), count, *a.shape[2:]) for a, count in zip(arrays, more, strict=True)]
        around = [np.full(size, value, a.dtype) for a, size in zip(arrays, sizes, strict=True)]
        return np.concatenate([np.concatenate(pair, axis=1) for pair in zip(around, arrays, strict=True)])

    whole = [np.repeat(part.spans[:, :1], count, axis=1) for part, count in zip(parts, more, strict=True)]
    spans = [np.concatenate([w, part.spans], axis=1) for w, part in zip(whole, parts, strict=True)]
    return Nests(
        accesses=tuple(
            _joined([part.accesses[i] for part in parts], parts) for i in range(len(parts[0].accesses))
        ),
        limits=outside([part.limits for part in parts], 1.0),
        vector=outside([part.vector for part in parts], value=False),
        unrolled=outside([part.unrolled for part in parts], value=False),
        parallel=outside([part.parallel for part in parts], value=False),
        reduces=outside([part.reduces for part in parts], value=False),
        steps=outside([part.steps for part in parts], 0.0),
        spans=np.concatenate(spans),
        packed=parts[0].packed,
        loops=np.concatenate([part.loops for part in parts]),
        outer_loops=np.concatenate([part.outer_loops for part in parts]),
        region=np.concatenate([part.region for part in parts]),
        materialised=np.concatenate([part.materialised for part in parts]),
        instruction=parts[0].instruction,
    )


def _joined(found: Sequence[Access], parts: Sequence[Nests]) -> Access:
    first = found[0]
    if all(access is first for access in found) and len(first.matrix) == 1:
        return first

    def rows(arrays: Sequence[Array]) -> Array:
        counts = [len(part.limits) for part in parts]
        return np.concatenate(
            [np.broadcast_to(a, (n, *a.shape[1:])) for a, n in zip(arrays, counts, strict=True)]
        )

    return replace(
        first,
        matrix=rows([access.matrix for access in found]),
        sizes=rows([access.sizes for access in found]),
        strides=rows([access.strides for access in found]),
    )


def accesses(workload: Workload, stage: Stage) -> tuple[Access, ...]:
    """The reads of a stage, then its writes."""
    constants = {o.name for o in workload.operands if o.constant}
    moved_by = {n: axes for result in stage.results for n, axes in lookup_names(result.body).items()}
    found: dict[tuple[str, tuple[Index, ...]], Access] = {}
    for load in stage_loads(stage):
        kind: AccessClass = "constant" if load.buffer in constants else "input"
        key = (load.buffer, load.indices)
        found.setdefault(key, _access(kind, workload.buffers[load.buffer], stage, load.indices, moved_by))
    written = (
        _access("output", workload.buffers[r.target], stage, r.indices, moved_by) for r in stage.results
    )
    return (*found.values(), *written)


def _access(
    kind: AccessClass,
    buffer: Operand,
    stage: Stage,
    indices: Sequence[Index],
    moved_by: Mapping[str, frozenset[str]],
) -> Access:
    names = [a.name for a in (*stage.axes, *stage.reduce_axes)]
    found = [(dim, c, *_term(atom)) for dim, index in enumerate(indices) for atom, c in index.terms]
    rows = [
        [sum(abs(k) * _slope(atom, name, moved_by) for atom, k in value.terms) for name in names]
        for _, _, value, _, _ in found
    ]
    scale = np.zeros((len(indices), len(found)))
    for place, (dim, c, *_) in enumerate(found):
        scale[dim, place] = abs(c)
    return Access(
        kind,
        buffer.name,
        np.array(rows, dtype=np.float64).reshape(1, len(found), len(names)),
        Terms(
            scale,
            np.array([f[3] for f in found], dtype=np.float64),
            np.array([f[4] for f in found], dtype=np.float64),
        ),
        np.array([buffer.sizes], dtype=np.float64).reshape(1, len(indices)),
        np.array([buffer.strides], dtype=np.float64).reshape(1, len(indices)),
        buffer.dtype.size_bytes,
    )


def _term(atom: Atom) -> tuple[Index, float, float]:
    """The value, divisor and modulus of a term."""
    match atom:
        case FloorDiv(Index(terms=((Mod(value, modulus), 1),), const=0), divisor):
            by = _fixed(divisor)
            return value, by, -(-_fixed(modulus) // by)
        case FloorDiv(value, divisor):
            return value, _fixed(divisor), np.inf
        case Mod(Index(terms=((FloorDiv(value, divisor), 1),), const=0), modulus):
            return value, _fixed(divisor), _fixed(modulus)
        case Mod(value, modulus):
            return value, 1.0, _fixed(modulus)
        case _:
            return Index.of(atom), 1.0, np.inf


def _fixed(divisor: Divisor) -> float:
    return float(static(Index.of(divisor), "a divisor"))


def _slope(atom: Atom, name: str, moved_by: Mapping[str, frozenset[str]]) -> float:
    """Average step of an atom per step of a name; one that is looked up moves by whole places."""
    match atom:
        case str():
            return float(atom == name)
        case LookedUp():
            return float(name in moved_by[atom.name])
        case Times():  # of symbols; what is tuned has none
            raise TypeError(atom)
        case FloorDiv() | Mod():
            inner = sum(abs(c) * _slope(part, name, moved_by) for part, c in atom.value.terms)
            return inner / _fixed(atom.divisor) if isinstance(atom, FloorDiv) else inner
