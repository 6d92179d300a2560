"""Size one: whether a model with one open size, of which nobody said how large it is, gets code of its own for 1.

One picture, one row of a table, one token: it is what most callers ask for. Code for all sizes suits some rows, and
where the CPU multiplies matrices, one row costs as much as eight. Of a convolution's pixels there are always many.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from compiler.instruction import INSTRUCTIONS
from compiler.runtime.image import Image
from compiler.target import Target
from compiler.workload.ir import Workload
from compiler.workload.specialise import specialise

_OPERATIONS = 8
"""Per element of its constants, of what multiplies each with a few rows at most."""
_SHARE = 0.5
"""Of the constants of a model, those that such Workloads have where code of its own pays."""


def shapes_at_one(
    image: Image, workloads: Sequence[Workload], target: Target
) -> dict[str, tuple[int, ...]] | None:
    """The shapes of the inputs where the open size is 1, if that is worth code; None if not.

    What the log knows for all sizes was measured, and stays.
    """
    if len(image.symbols) != 1 or any(lookup.lookup == "exact" for lookup in image.lookups):
        return None
    (symbol,) = image.symbols
    matrices = any(entry.takes_matrices and entry.runs_on(target) for entry in INSTRUCTIONS.values())
    if symbol.hints or symbol.low > 1 or not matrices:
        return None
    elements = {workload.digest: _constant_elements(workload) for workload in workloads}
    once = sum(elements[workload.digest] for workload in workloads if _is_read_once(workload))
    if not once or once < _SHARE * sum(elements.values()):
        return None
    return {spec.name: spec.sizes({symbol.name: 1}) for spec in image.inputs}


def _is_read_once(workload: Workload) -> bool:
    """Whether at size 1 each constant is multiplied with a few numbers only."""
    one = specialise(workload, {symbol.name: symbol.low for symbol in workload.symbols})
    return one.operations <= _OPERATIONS * _constant_elements(workload)


def _constant_elements(workload: Workload) -> int:
    return sum(prod(operand.sizes) for operand in workload.operands if operand.constant)
