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

from collections.abc import Mapping

from compiler.errors import ScheduleError
from compiler.schedule.both_parts import find_factors
from compiler.schedule.panels import find_panels
from compiler.schedule.schedule import Schedule
from compiler.space.both_part_phases import matrices_of_parts
from compiler.space.product_errors import LARGEST_ERROR, parts_errors
from compiler.space.product_plan import NO, PARTS, YES, ProductPlan
from compiler.space.product_structure import find_products, needed_products
from compiler.space.row_structure import contiguous_axis
from compiler.space.space import Assignment, Knob, SearchSpace, Value
from compiler.space.structure import gathers
from compiler.target import Target
from compiler.workload.ir import Workload

CACHE, MEMORY = "cache", "memory"
PACKED_ROWS = 32
"""Rows that make any copy worth its while: tiles then read it from end to end several times."""
CLEARLY = 0.75
"""Cycles of a product in parts, as a share of the direct one's, below which it is taken for faster: what is estimated
leaves out the ends of rows, and what small matrices wait for."""
_Key = tuple[str, str, str]
"""Values of the knobs "between", "pack.0" and "pack.1"."""


_Wish = tuple[str, str]
"""What is best done with the factors of a product, and what is if they are not taken apart."""
_FARTHEST = 5
"""More than any choice in the cache is from what is wished for both products."""


class Products:
    """The rule."""

    name = "products"

    def applies(self, workload: Workload) -> bool:
        """The first stage and the last reduction are contractions; between them everything has the same rows."""
        return find_products(workload) is not None

    def space(self, workload: Workload, target: Target, threads: int) -> SearchSpace:
        """Knobs: between (cache or memory), block (rows at a time), what is packed, and those of both tiles."""
        plans = {
            (between, a, b): ProductPlan(workload, target, threads, packed=(a, b), blocked=between == CACHE)
            for between in (CACHE, MEMORY)
            for a in _packable(workload, 0, target)
            for b in _packable(workload, 1, target)
            if between == CACHE or PARTS.keys().isdisjoint((a, b))
        }
        errors = parts_errors(workload)
        knobs, wishes = _knobs(plans), _wishes(plans, workload, errors)

        def legal(values: dict[str, Value]) -> bool:
            plan = plans.get(_key(values))
            return plan is not None and plan.legal(values)

        def build(values: dict[str, Value]) -> Schedule:
            if not legal(values):
                msg = f"the knobs {values} do not fit the target; choose legal ones"
                raise ScheduleError(msg)
            return Schedule(tuple(plans[_key(values)].steps(values)))

        usual = [
            _assignment(
                knobs, dict(zip(("between", "pack.0", "pack.1"), key, strict=True)) | plans[key].default()
            )
            for key in sorted(plans, key=lambda key: _rank(key, wishes))
        ]
        space = SearchSpace(knobs, usual[0], legal, build)
        default, *others = [assignment for assignment in usual if space.is_legal(assignment)]

        def error(assignment: Assignment) -> float:
            _, *forms = _key(space.values(assignment))
            return sum(by_form.get(form, 0.0) for by_form, form in zip(errors, forms, strict=True))

        careful = next((a for a in others if not error(a)), None) if error(default) else None
        return SearchSpace(knobs, default, space.legal, build, tuple(others), error(default), careful)


def _packable(workload: Workload, which: int, target: Target) -> tuple[str, ...]:
    parts = needed_products(workload)
    stage = workload.stages[(0, parts.second)[which]]
    axis = (parts.column, parts.wide)[which]
    lanes = target.lanes(workload.outputs[0].dtype.size_bytes)
    found = find_panels(workload, stage, axis.name) is not None and axis.size >= lanes
    plain = (NO, YES) if found else (NO,)
    apart = matrices_of_parts(target) is not None and find_factors(workload, stage, axis.name) is not None
    # Matrices store rows of columns; what is stored the other way round has its rows in the lanes.
    apart = apart and (which > 0 or contiguous_axis(stage, workload) == axis)
    return (*plain, *parts_errors(workload)[which]) if apart else plain


def _wishes(
    plans: dict[_Key, ProductPlan],
    workload: Workload,
    errors: tuple[Mapping[str, float], Mapping[str, float]],
) -> tuple[_Wish, _Wish]:
    """What is best done with the factors of each product, without measuring: many rows or gathered lanes are packed."""
    parts = needed_products(workload)
    many = parts.row.size >= PACKED_ROWS
    found = []
    for which, (place, axis) in enumerate(((0, parts.column), (parts.second, parts.wide))):
        plain = YES if many or gathers(workload, workload.stages[place], axis) else NO
        alike = {key[1 + which]: plan for key, plan in plans.items()}
        cycles = {form: plan.cycles(which) for form, plan in alike.items()}
        form = next((f for f, e in errors[which].items() if f in cycles and e <= LARGEST_ERROR), NO)
        apart = many and form != NO and cycles[form] < CLEARLY * cycles[NO]
        found.append((form if apart else plain, plain))
    return found[0], found[1]


def _rank(key: _Key, wishes: tuple[_Wish, _Wish]) -> int:
    """How far from what is best without measuring: in the cache, and each product as is wished."""
    far = 0
    for form, wish in zip(key[1:], wishes, strict=True):
        far += wish.index(form) if form in wish else len(wish)
    return _FARTHEST * (key[0] == MEMORY) + far


def _key(values: dict[str, Value]) -> _Key:
    return str(values["between"]), str(values["pack.0"]), str(values["pack.1"])


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
