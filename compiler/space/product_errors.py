"""What parts of floats cost in accuracy where a product's sums go through further stages.

An error of a sum becomes one of its exponential: exp(s + e) is exp(s) (1 + e). Sums of n products of numbers around 1
are as large as sqrt(n), and so is their error beside that of one product; a scale makes both smaller. With two parts a
softmax of scores around 1, as attention has that divides by sqrt(n), stays exact enough; of others it takes three.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, prod, sqrt

from compiler.scalar import Apply, Const, Expr, Load, walk
from compiler.space.part_phases import BOUNDED
from compiler.space.product_plan import PARTS
from compiler.space.product_structure import needed_products
from compiler.workload.ir import Stage, Workload

TWO, THREE = PARTS
OF_SUMS = 7e-6
"""Relative to the largest output, of products of two parts, which random data hardly ever exceed."""
OF_EXPONENTIALS = 1e-5
"""The same of exponentials of sums that are around 1."""
WHOLE = 1e-6
"""The same with three parts: that of any order of sums."""
LARGEST_ERROR = 1.3e-5
"""Of one of the two products, at most, where nobody measures: with the other one's it keeps to what a Task may have."""


def parts_errors(workload: Workload) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """By form, the shorter first, the error of the outputs that each of the two products brings about."""
    second = needed_products(workload).second
    between = workload.stages[1:second]
    bounded = any(isinstance(e, Apply) and e.op in BOUNDED for s in between for e in walk(s.body))
    first = workload.stages[0]
    of_first = OF_SUMS
    if bounded:
        scale = _scale(between[0].body, first.target) * prod(map(_enlarged, between[1:]))
        sums = first.points // max(1, workload.buffers[first.target].elements)
        of_first = OF_EXPONENTIALS * max(1.0, sqrt(sums) * scale)
    return {TWO: of_first, THREE: WHOLE}, {TWO: OF_SUMS}


def _enlarged(stage: Stage) -> float:
    """What the constants of a further stage multiply by, those that make smaller left out."""
    products = (e.args for e in walk(stage.body) if isinstance(e, Apply) and e.op == "mul")
    constants = (abs(float(x.value)) for args in products for x in args if isinstance(x, Const))
    return prod(max(1.0, c) for c in constants)


def _scale(expr: Expr, buffer: str) -> float:
    """What a map multiplies a sum by; infinite where it does anything else with it than add."""
    match expr:
        case Load():
            return 1.0
        case Apply("mul", (x, Const(by, _))) | Apply("mul", (Const(by, _), x)):
            return abs(float(by)) * _scale(x, buffer)
        case Apply("add" | "sub", (x, y)):
            read = [
                e
                for e in (x, y)
                if any(isinstance(inner, Load) and inner.buffer == buffer for inner in walk(e))
            ]
            return _scale(read[0], buffer) if len(read) == 1 else inf
        case _:
            return inf
