"""Looks: a shape that misses its bar is timed again later in the run, and its least disturbed figures count.

On a shared machine a neighbour may take the matrix unit, the second cache or half of the issue slots for minutes: all
the turns of a shape then lie in that time, and no choice among them helps. A later look meets other minutes. From all
looks at a shape every contender has its fastest figures, ours and the peers' alike, and the machine its highest
ceilings, so that no share is larger for what disturbed a probe.
"""

from __future__ import annotations

from typing import Any

from benchmarks.bars import Row


def joined(first: Row, second: Row) -> dict[str, Any]:
    """Two looks at a shape as one: of each contender the faster figures, of each ceiling the higher one."""
    faster = min(first, second, key=lambda row: row["kernel"]["tuned"]["median_us"])
    lower = min(first, second, key=lambda row: row["bound_us"])
    return {
        **faster,
        "looks": first.get("looks", 1) + 1,
        "ceilings": {k: max(rate, second["ceilings"][k]) for k, rate in first["ceilings"].items()},
        "bound_us": lower["bound_us"],
        "bound_by": lower["bound_by"],
        "errors": {k: max(error, second["errors"].get(k, 0.0)) for k, error in first["errors"].items()},
        **{times: _fastest(first[times], second[times]) for times in ("kernel", "model")},
    }


def _fastest(first: Row, second: Row) -> dict[str, Any]:
    both = {**second, **first}
    return {
        name: min((look[name] for look in (first, second) if name in look), key=lambda f: f["median_us"])
        for name in both
    }
