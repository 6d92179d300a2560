"""The contracts of the command line: valid schemas, and a test that fails when one of them changes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "contracts"
SCHEMAS = sorted(FOLDER.glob("*.schema.json"))


def _load(path: Path) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return schema


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda p: p.stem)
def test_a_schema_is_valid_and_closed(path: Path) -> None:
    schema = _load(path)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["additionalProperties"] is False
    assert schema["required"] == list(schema["properties"])


def test_no_contract_changes_by_accident(golden: Callable[[str, str], None]) -> None:
    """A change of a contract shows here; `make golden` accepts it, and the changelog should name it."""
    lines = []
    for path in SCHEMAS:
        schema = _load(path)
        digest = hashlib.sha256(json.dumps(schema, sort_keys=True).encode()).hexdigest()[:16]
        lines.append(f"{path.name} {digest} {' '.join(schema['properties'])}")
    golden("\n".join(lines), "contracts")


def test_the_documents_of_the_design_have_their_fields() -> None:
    tune = _load(FOLDER / "tune.schema.json")
    assert list(tune["properties"]) == [
        *("model", "target", "threads", "seconds", "trials", "failed_trials", "trials_per_second"),
        *("records_added", "cache_hits", "tasks", "untuned_ms", "tuned_ms", "speedup", "published"),
    ]
    assert list(tune["properties"]["tasks"]["items"]["properties"]) == [
        *(
            "workload",
            "name",
            "weight",
            "trials",
            "untuned_us",
            "tuned_us",
            "gflops",
            "roofline_fraction",
            "status",
        ),
    ]
    compiled = _load(FOLDER / "compile.schema.json")
    assert list(compiled["properties"]) == [
        *("model", "target", "output", "seconds", "tasks", "hits", "near", "misses", "bytes"),
    ]
    bench = _load(FOLDER / "bench.schema.json")
    assert list(bench["properties"]) == ["model", "target", "threads", "results", "ratio"]
