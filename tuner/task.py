"""Task: what is tuned. Workload x Target x threads, with its weight in the model."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.schedule.schedule import LANGUAGE
from compiler.schedule.source import TASK_ERROR_BUDGET
from compiler.target import Target
from compiler.workload.ir import Workload

PROTOCOL = 3
"""Version of the measurement protocol (workers/timer.py); part of every record's key."""


@dataclass(frozen=True, slots=True)
class RecordKey:
    """What a record answers for. Two keys that differ anywhere never share a record."""

    workload: str
    target: str
    threads: int
    error_class: str
    protocol: int = PROTOCOL
    language: int = LANGUAGE


@dataclass(frozen=True)
class Task:
    """One thing to tune.

    Attributes:
        workload: what is computed.
        target: what it is compiled for.
        threads: size of the team that runs it.
        weight: how many times the models run it.
        name: for people, such as "conv 3x3 64->64 @56x56".
        error_budget: largest error of an output, relative to the largest output, that a record may have.
    """

    workload: Workload
    target: Target
    threads: int
    weight: int
    name: str
    error_budget: float = TASK_ERROR_BUDGET

    @property
    def constant_bytes(self) -> int:
        """Size of the operands that are constants, as the model has them."""
        return sum(operand.size_bytes for operand in self.workload.operands if operand.constant)

    @property
    def key(self) -> RecordKey:
        """The key of its records."""
        return RecordKey(
            self.workload.digest, self.target.digest, self.threads, error_class(self.error_budget)
        )


def error_class(error_budget: float) -> str:
    """The budget as a key: powers of ten and their halves, rounded down, so that near budgets share records.

    2e-5 gives "2e-05".
    """
    text = f"{error_budget:.0e}"
    return text if float(text) <= error_budget else f"{error_budget * 0.9:.0e}"
