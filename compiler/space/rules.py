"""The rules in the order in which they are tried, and the space that they give."""

from __future__ import annotations

import logging
from dataclasses import replace
from random import Random

from compiler.errors import CompileError
from compiler.schedule.source import TASK_ERROR_BUDGET
from compiler.schedule.steps import Algorithm
from compiler.space.for_all_sizes import for_all_sizes
from compiler.space.grid_tile import GridTile
from compiler.space.products import Products
from compiler.space.reduction import Reduction
from compiler.space.rows import Rows
from compiler.space.rule import Rule
from compiler.space.scattered import Scattered
from compiler.space.space import SearchSpace
from compiler.space.vector_map import VectorMap
from compiler.target import Target
from compiler.workload.ir import Workload
from compiler.workload.specialise import nominal

RULES: tuple[Rule, ...] = (Scattered(), Rows(), Products(), Reduction(), VectorMap())
GRID_RULES: tuple[Rule, ...] = (GridTile(),)
"""Those for Targets whose threads form a grid."""

VERSION = 10
"""Raised when a rule changes what its knobs mean."""
_SAMPLES = 20
"""Schedules that are drawn in place of a default that does not fit its Target."""
_LOG = logging.getLogger("luthier")


def build_space(
    workload: Workload, target: Target, threads: int, error_budget: float = TASK_ERROR_BUDGET
) -> SearchSpace:
    """The SearchSpace of the first rule that applies; raises CompileError where none does.

    The default keeps to the error budget, as far as rounding can be foretold; what else is in the space may not.

    Where the Workload has symbols, the rules see it at their nominal values, and what cannot be done for all sizes is
    left out.
    """
    sample = nominal(workload)
    for rule in GRID_RULES if target.grid_threads else RULES:
        if rule.applies(sample):
            space = _with_legal_default(rule.space(sample, target, threads).within(error_budget), sample)
            return for_all_sizes(space, workload, threads) if workload.symbols else space
    msg = f"no rule makes a search space for workload {workload.digest[:12]}; please report it with the model"
    raise CompileError(msg)


def _with_legal_default(space: SearchSpace, workload: Workload) -> SearchSpace:
    """The space; where its rule picked what does not fit the Target, another default and a warning.

    One without algorithms, whose errors nothing measures here. Where there is none the Schedule of the default raises.
    """
    if space.is_legal(space.default):
        return space
    random = Random(0)
    for other in (*space.starts, *(space.sample(random) for _ in range(_SAMPLES))):
        if space.is_legal(other) and not any(isinstance(s, Algorithm) for s in space.schedule(other).steps):
            _LOG.warning(
                "the rules' schedule of task %s does not fit the target, so it gets another, which may be slow; please "
                "report it with the model",
                workload.digest[:12],
            )
            return replace(space, default=other, error=0.0, careful=None)
    return space
