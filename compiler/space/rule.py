"""Rule: makes a SearchSpace for the Workloads it understands, from their structure and the Target alone."""

from __future__ import annotations

from typing import Protocol

from compiler.space.space import SearchSpace
from compiler.target import Target
from compiler.workload.ir import Workload


class Rule(Protocol):
    """One file each. The first rule of compiler.space.rules that applies makes the space."""

    name: str

    def applies(self, workload: Workload) -> bool:
        """Whether the rule understands this structure."""
        ...

    def space(self, workload: Workload, target: Target, threads: int) -> SearchSpace:
        """The space of a Workload that the rule applies to."""
        ...
