"""Performance history: a line of JSON per recorded run of `benchmarks.models`, in models.jsonl beside this file.

    {"commit", "changed", "machine", "engines": {name: version}, "rows": [{"model", "threads", "lookups", "us",
     "tuned", "untuned", "gain"}]}

`changed`: the tree held changes that the commit lacks. Ratios are those of a row (best peer over ours, with interval).
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from workers.device import describe_device

_HERE = Path(__file__).resolve().parent
MODELS = _HERE / "models.jsonl"
_RATIOS = ("tuned", "untuned", "gain")
_MACHINE = ("cpu", "machine", "cores", "system")


def record(rows: Sequence[Mapping[str, Any]], path: Path = MODELS) -> None:
    """Append a line for the rows of one run."""
    device = describe_device()
    timed = [row for row in rows if "refused" not in row]
    line = {
        "commit": _git("rev-parse", "HEAD"),
        "changed": bool(_git("status", "--porcelain", "--untracked-files=no")),
        "machine": {name: getattr(device, name) for name in _MACHINE},
        "engines": {name: e["version"] for row in timed for name, e in row["engines"].items()},
        "rows": [_short(row) for row in timed],
    }
    with path.open("a") as file:
        file.write(json.dumps(line, sort_keys=True) + "\n")


def read(path: Path = MODELS) -> list[dict[str, Any]]:
    """All recorded runs, the oldest first."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def _short(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **{key: row[key] for key in ("model", "threads", "lookups", "best_peer")},
        "us": {name: round(figures["median_us"], 2) for name, figures in row["engines"].items()},
        **{kind: _rounded(row[kind]) for kind in _RATIOS},
    }


def _rounded(ratio: Mapping[str, float] | None) -> dict[str, float] | None:
    return None if ratio is None else {key: round(value, 4) for key, value in ratio.items()}


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(_HERE), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
