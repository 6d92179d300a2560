"""`luthier inspect --bisect`: where a wrong result comes from."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from luthier.cli.output import only_json, put_json, put_text, say
from luthier.shapes import parse_shapes

if TYPE_CHECKING:
    from luthier.bisect import Check


def run_bisect(
    model: Path,
    target: str,
    threads: int | None,
    shape: list[str],
    error_budget: float | None,
    database: str | None,
    *,
    json: bool,
) -> None:
    """Print every check as it is made; raises LuthierError with the first wrong one, after all of them."""
    with only_json():
        from compiler.errors import LuthierError
        from luthier.bisect import bisect
        from luthier.build import make_options

        chosen = make_options(target, threads, parse_shapes(shape), error_budget, database)
        checks = []
        for check in bisect(model, chosen):
            checks.append(check)
            if json:
                continue
            say(_line(check))
    wrong = next((check for check in checks if check.wrong), None)
    if json:
        place = {"model": model.stem, "target": chosen.target.name, "threads": chosen.threads}
        put_json({**place, "checks": [_document(check) for check in checks]})
    elif wrong is None:
        put_text(f"{model.stem} is right at every level ({len(checks)} checks)")
    if wrong is not None:
        msg = f"{wrong.level} {wrong.name} is wrong (error {wrong.error:.1e})" + (
            f": {wrong.detail}" if wrong.detail else ""
        )
        raise LuthierError(msg)


def _document(check: Check) -> dict[str, Any]:
    finite = check.error is not None and math.isfinite(check.error)
    return {**asdict(check), "error": check.error if finite else None}


def _line(check: Check) -> str:
    error = "-" if check.error is None else f"{check.error:.1e}"
    state = "WRONG" if check.wrong else "?" if check.error is None else "right"
    detail = f"   {check.detail}" if check.detail else ""
    return f"{check.level:<10} {state:<6} {error:>8}  {check.name}{detail}"
