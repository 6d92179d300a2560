"""What the knobs of the rule for rows decide."""

from __future__ import annotations

from dataclasses import dataclass

KEEP, REPEAT, CHEAP = "keep", "repeat", "cheap"
"""Which maps with several readers are repeated instead of stored: none, all, or only those that are cheap."""

IN_REGISTERS = 8
"""Largest block of vectors of rows whose partial results are kept in registers; those of larger ones are local."""

SHORT_ROW = 16
"""Vectors of a row from which on the rows of a block in a sweep go through a stage one after the other."""


@dataclass(frozen=True, slots=True)
class RowChoices:
    """What the knobs decide.

    Attributes:
        block: rows at a time; vectors of rows where neighbouring rows fill the lanes.
        sweep: blocks of rows that follow each other through the stages, each stage behind those that it waits for
            (compiler/loop/software_pipeline.py); 1 where rows fill the lanes.
        accumulators: partial results of one reduction and row; vectors of them where columns fill the lanes.
        unroll: vectors of the target that one long vector of a map stands for.
        maps: KEEP, REPEAT or CHEAP.
        parallel: how many loops over rows are shared out together.
    """

    block: int
    sweep: int
    accumulators: int
    unroll: int
    maps: str
    parallel: int
