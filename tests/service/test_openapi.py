"""docs/contracts/openapi.json is what the app serves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from service.app import create_app
from service.composition import Services
from service.db.upgrade import open_database
from service.jobs.orchestrator import Orchestrator

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "contracts" / "openapi.json"


def test_the_openapi_document_is_the_checked_in_one(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """A change of the API shows here; `--update-golden` accepts it, and the changelog should name it."""
    database = open_database(f"sqlite:///{tmp_path / 'log.db'}")
    app = create_app(Services(database, tmp_path, Orchestrator(database, "")))
    document = app.openapi()
    document["info"]["version"] = "0"
    database.close()
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    if request.config.getoption("--update-golden"):
        DOCUMENT.write_text(text, encoding="utf-8")
    assert text == DOCUMENT.read_text(encoding="utf-8")


def test_every_operation_documents_its_problems_and_its_token() -> None:
    paths = json.loads(DOCUMENT.read_text(encoding="utf-8"))["paths"]
    operations = {
        (method, path): operation for path, item in paths.items() for method, operation in item.items()
    }
    assert {path for _, path in operations} >= {"/v1/models", "/v1/jobs", "/v1/records/lookup", "/readyz"}
    for (_, path), operation in operations.items():
        assert "4XX" in operation["responses"]
        assert bool(operation.get("security")) == path.startswith("/v1/")
        assert operation["description"]
