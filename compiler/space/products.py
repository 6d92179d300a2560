"""Rule: two contractions with reductions and maps between them.

In blocks of rows, all that stands between them in the cache:      attention: rows are queries, columns keys

    for blocks of rows (parallel):
        scores: register tiles, kept in a local buffer, all columns of some rows
        their maxima, exponentials (kept likewise) and sums, a row at a time
        result: register tiles over the exponentials
        scaled and stored

or each stage as a phase of its own, with scratch memory between them. Operands whose lanes would be gathered are copied
in panels before (compiler/schedule/panels.py).
"""

from __future__ import annotations

from compiler.errors import ScheduleError
from compiler.schedule.panels import find_panels
from compiler.schedule.schedule import Schedule
from compiler.space.product_plan import NO, YES, ProductPlan
from compiler.space.product_structure import find_products, needed_products
from compiler.space.space import Assignment, Knob, SearchSpace, Value
from compiler.space.structure import gathers
from compiler.target import Target
from compiler.workload.ir import Workload

CACHE, MEMORY = "cache", "memory"
PACKED_ROWS = 32
"""Rows that make any copy worth its while: tiles then read it from end to end several times."""
_Key = tuple[str, str, str]
"""Values of the knobs "between", "pack.0" and "pack.1"."""


class Products:
    """The rule."""

    name = "products"

    def applies(self, workload: Workload) -> bool:
        """The first stage and the last reduction are contractions; between them everything has the same rows."""
        return find_products(workload) is not None

    def space(self, workload: Workload, target: Target, threads: int) -> SearchSpace:
        """Knobs: between (cache or memory), block (rows at a time), what is packed, and those of both tiles."""
        plans = {
            (between, a, b): ProductPlan(
                workload, target, threads, packed=(a == YES, b == YES), blocked=between == CACHE
            )
            for between in (CACHE, MEMORY)
            for a in _packable(workload, 0, target)
            for b in _packable(workload, 1, target)
        }
        knobs = _knobs(plans)

        def plan(values: dict[str, Value]) -> ProductPlan:
            return plans[str(values["between"]), str(values["pack.0"]), str(values["pack.1"])]

        def build(values: dict[str, Value]) -> Schedule:
            if not plan(values).legal(values):
                msg = f"the knobs {values} do not fit the target; choose legal ones"
                raise ScheduleError(msg)
            return Schedule(tuple(plan(values).steps(values)))

        usual = [
            _assignment(
                knobs, dict(zip(("between", "pack.0", "pack.1"), key, strict=True)) | plans[key].default()
            )
            for key in sorted(plans, key=lambda key: _rank(key, workload))
        ]
        space = SearchSpace(knobs, usual[0], lambda values: plan(values).legal(values), build)
        default, *others = [assignment for assignment in usual if space.is_legal(assignment)]
        return SearchSpace(knobs, default, space.legal, build, tuple(others))


def _packable(workload: Workload, which: int, target: Target) -> tuple[str, ...]:
    parts = needed_products(workload)
    stage = workload.stages[(0, parts.second)[which]]
    axis = (parts.column, parts.wide)[which]
    lanes = target.lanes(workload.outputs[0].dtype.size_bytes)
    found = find_panels(workload, stage, axis.name) is not None and axis.size >= lanes
    return (NO, YES) if found else (NO,)


def _rank(key: _Key, workload: Workload) -> int:
    """How far from what is best without measuring: in the cache, and packed for many rows or gathered lanes."""
    parts = needed_products(workload)
    many = parts.row.size >= PACKED_ROWS
    wishes = (
        many or gathers(workload, workload.stages[0], parts.column),
        many or gathers(workload, workload.stages[parts.second], parts.wide),
    )
    wrong = sum((packed == YES) is not wish for packed, wish in zip(key[1:], wishes, strict=True))
    return 4 * (key[0] == MEMORY) + wrong


def _knobs(plans: dict[_Key, ProductPlan]) -> tuple[Knob, ...]:
    """Every choice that any plan has; which go together is a matter of legality."""
    merged: dict[str, dict[Value, None]] = {}
    for plan in plans.values():
        for knob in plan.knobs():
            merged.setdefault(knob.name, {}).update(dict.fromkeys(knob.choices))
    keys = [
        Knob(name, tuple(dict.fromkeys(key[i] for key in plans)))
        for i, name in enumerate(("between", "pack.0", "pack.1"))
    ]
    return (*keys, *(Knob(name, tuple(choices)) for name, choices in merged.items()))


def _assignment(knobs: tuple[Knob, ...], wanted: dict[str, Value]) -> Assignment:
    return tuple(knob.choices.index(_nearest(knob, wanted)) for knob in knobs)


def _nearest(knob: Knob, wanted: dict[str, Value]) -> Value:
    value = wanted.get(knob.name, knob.choices[0])
    if value in knob.choices or not isinstance(value, int):
        return value if value in knob.choices else knob.choices[0]
    numbers = [c for c in knob.choices if isinstance(c, int)]
    return max((c for c in numbers if c <= value), default=numbers[0])
