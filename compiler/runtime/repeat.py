"""A Module run again and again, each time on what the run before gave: the iterations of a loop.

    state, y[i] = run(i, state, x)      for i = first, first + 1, ...

Between two runs a few pointers of the program's table change, in native code (compiler/codegen/repeat.py). Nothing is
checked, bound or allocated again, which would take longer than many a kernel.
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
        self._execution, self._inputs, self._outputs = execution, inputs, outputs
        self._recurrence, self._first, self._runs = recurrence, first, 0
        self._number = np.zeros(1, np.int64)
        if recurrence.counter:
            _point(execution.table, inputs[recurrence.counter], data_pointer(self._number))
        # What is not stacked is written in turns, so that a run reads what the one before wrote.
        single = outputs.keys() - set(recurrence.stacked)
        self._turns = {name: (outputs[name].empty(), outputs[name].empty()) for name in single}
        self._blocks: dict[str, list[Array]] = {name: [] for name in recurrence.stacked}

    def run(self, most: int) -> Repeated:
        """Run so many times, or until a run says that none follows."""
        row_bytes = sum(self._outputs[name].size_bytes for name in self._blocks)
        rows, going, last = _ROWS, True, dict[str, int]()
        while going and self._runs < most:
            fits = max(1, min(rows, _BLOCK_BYTES // max(1, row_bytes)))
            count = min(most - self._runs, fits)
            ways = self._ways(count)
            going = self._block(ways, count, last)
            last = {name: start + (count - 1) % period * step for name, (start, step, period) in ways.items()}
            rows *= 2
        whole = {name: _first(arrays, self._runs) for name, arrays in self._blocks.items()}
        kept = {
            name: whole[name][-1].copy() if name in whole else self._turns[name][(self._runs - 1) % 2]
            for name in self._recurrence.last
        }
        return Repeated(self._runs, going, kept, whole)

    def _ways(self, count: int) -> dict[str, tuple[int, int, int]]:
        """Where the next runs write each output: start, step and period of its address."""
        found = {}
        for name, arrays in self._blocks.items():
            arrays.append(self._outputs[name].empty(count))
            found[name] = (data_pointer(arrays[-1]), self._outputs[name].size_bytes, count)
        for name, pair in self._turns.items():
            now, then = (data_pointer(pair[(self._runs + k) % 2]) for k in range(2))
            found[name] = (now, then - now, 2)
        return found

    def _block(self, ways: Mapping[str, tuple[int, int, int]], count: int, last: Mapping[str, int]) -> bool:
        """So many runs; whether another follows. `last`: where the run before wrote each output."""
        moves = [(slot, *ways[name], 0) for name, port in self._outputs.items() for slot in port.slots]
        for given, source in self._recurrence.carried.items():
            moves += [(slot, *ways[source], 1) for slot in self._inputs[given].slots]
            if last:
                _point(self._execution.table, self._inputs[given], last[source])
        asked = self._recurrence.going
        going = np.array(ways[asked], np.int64) if asked else None
        counter = data_pointer(self._number) if self._recurrence.counter else 0
        runs = self._execution.repeat(
            np.array(moves, np.int64).reshape(-1, 5), counter, self._first + self._runs, count, going
        )
        self._runs += runs
        return going is None or self._says(asked, runs - 1)

    def _says(self, name: str, row: int) -> bool:
        """Whether another run follows what the last one, in a row of its block, has said."""
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
