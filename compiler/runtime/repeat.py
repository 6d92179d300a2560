"""A Module run again and again, each time on what the run before gave: the iterations of a loop.

    state, y[i] = run(i, state, x)      for i = first, first + 1, ...

Between two runs a few pointers of the program's table change. Nothing is checked, bound or allocated again, which takes
ten times as long as a small kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from compiler.runtime.aligned import aligned_empty, data_pointer
from compiler.runtime.arguments import Array
from compiler.runtime.loader import Execution

_ROWS, _BLOCK_BYTES = 64, 32 << 20
"""Of the first block of what is kept of all runs; each is twice the one before, up to so many bytes."""


@dataclass(frozen=True, slots=True)
class Recurrence:
    """How runs follow each other, by names of inputs and outputs.

    Attributes:
        counter: the input that is the number of the run (int64); "" for none.
        going: the output (one bool) that says whether another run follows; "" where the caller knows how many do.
        carried: by input, the output of the run before that it is; the first run has the caller's.
        last: outputs of which that of the last run is kept.
        stacked: outputs of which those of all runs are kept.
    """

    counter: str
    going: str
    carried: Mapping[str, str]
    last: tuple[str, ...]
    stacked: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Repeated:
    """What several runs leave behind.

    Attributes:
        runs: how many there were, one at least.
        going: whether another would follow.
        last: by output, that of the last run.
        stacked: by output, those of all runs along a new first dimension.
    """

    runs: int
    going: bool
    last: Mapping[str, Array]
    stacked: Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output of a program: the slots of its pointer, its shape and element type."""

    slots: tuple[int, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]

    def empty(self, *rows: int) -> Array:
        """Memory for so many of it."""
        return aligned_empty((*rows, *self.shape), self.dtype)

    @property
    def size_bytes(self) -> int:
        """Of one array."""
        return prod(self.shape) * self.dtype.itemsize


class Repeating:
    """Runs on one execution, whose table has the pointers of the first run's inputs."""

    def __init__(
        self,
        execution: Execution,
        inputs: Mapping[str, Port],
        outputs: Mapping[str, Port],
        recurrence: Recurrence,
        first: int,
    ) -> None:
        """`first`: the number of the first run."""
        self._execution, self._outputs, self._recurrence = execution, outputs, recurrence
        self._first, self._runs = first, 0
        self._carried = [(inputs[given], source) for given, source in recurrence.carried.items()]
        self._number: Array | None = None
        if recurrence.counter:
            self._number = np.zeros(inputs[recurrence.counter].shape, np.int64)
            _point(execution.table, inputs[recurrence.counter], data_pointer(self._number))
        # What is not stacked is written in turns, so that a run reads what the one before wrote.
        single = outputs.keys() - set(recurrence.stacked)
        self._turns = {name: (outputs[name].empty(), outputs[name].empty()) for name in single}
        self._ends = {name: tuple(map(data_pointer, pair)) for name, pair in self._turns.items()}
        self._blocks: dict[str, list[Array]] = {name: [] for name in recurrence.stacked}
        self._written: dict[str, int] = {}

    def run(self, most: int) -> Repeated:
        """Run so many times, or until a run says that none follows."""
        row_bytes = sum(self._outputs[name].size_bytes for name in self._blocks)
        rows, going = _ROWS, True
        while going and self._runs < most:
            fits = max(1, min(rows, _BLOCK_BYTES // max(1, row_bytes)))
            going = self._block(min(most - self._runs, fits))
            rows *= 2
        whole = {name: _first(arrays, self._runs) for name, arrays in self._blocks.items()}
        last = {
            name: whole[name][-1].copy() if name in whole else self._turns[name][(self._runs - 1) % 2]
            for name in self._recurrence.last
        }
        return Repeated(self._runs, going, last, whole)

    def _block(self, count: int) -> bool:
        """So many runs, whose results have a block of memory; whether another follows."""
        for name, arrays in self._blocks.items():
            arrays.append(self._outputs[name].empty(count))
        starts = {name: data_pointer(arrays[-1]) for name, arrays in self._blocks.items()}
        for row in range(count):
            self._point_to(starts, row)
            self._execution.run()
            self._runs += 1
            if self._recurrence.going and not self._going(row):
                return False
        return True

    def _point_to(self, starts: Mapping[str, int], row: int) -> None:
        table, written = self._execution.table, self._written
        if self._number is not None:
            self._number.fill(self._first + self._runs)
        if self._runs:
            for port, source in self._carried:
                _point(table, port, written[source])
        for name, pair in self._ends.items():
            written[name] = pair[self._runs % 2]
            _point(table, self._outputs[name], written[name])
        for name, start in starts.items():
            written[name] = start + row * self._outputs[name].size_bytes
            _point(table, self._outputs[name], written[name])

    def _going(self, row: int) -> bool:
        """What the last run said."""
        name = self._recurrence.going
        flag = (
            self._blocks[name][-1][row] if name in self._blocks else self._turns[name][(self._runs - 1) % 2]
        )
        return bool(flag.reshape(-1)[0])


def _point(table: Array, port: Port, pointer: int) -> None:
    for slot in port.slots:
        table[slot] = pointer


def _first(blocks: Sequence[Array], rows: int) -> Array:
    """So many rows of blocks one after the other."""
    return blocks[0][:rows] if len(blocks) == 1 else np.concatenate(blocks)[:rows]
