from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

Cli = Callable[..., "subprocess.CompletedProcess[str]"]
CONTRACTS = Path(__file__).resolve().parents[2] / "docs" / "contracts"


def _document(done: subprocess.CompletedProcess[str], contract: str) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    jsonschema.validate(document, json.loads((CONTRACTS / f"{contract}.schema.json").read_text()))
    return document


def test_the_log_of_a_new_database_is_empty(cli: Cli) -> None:
    assert _document(cli("db", "upgrade", "--json"), "db-upgrade")["current"] is True
    stats = _document(cli("log", "stats", "--json"), "log-stats")
    assert {value for name, value in stats.items() if name != "database"} == {0}


def test_export_and_import(cli: Cli, tmp_path: Path) -> None:
    exported = _document(cli("log", "export", "log.jsonl", "--json"), "log-export")
    assert exported["lines"] == len((tmp_path / "log.jsonl").read_text().splitlines())
    assert cli("log", "export").stdout == (tmp_path / "log.jsonl").read_text()
    imported = _document(
        cli("log", "import", "log.jsonl", "--database", f"sqlite:///{tmp_path}/other.db", "--json"),
        "log-import",
    )
    assert imported["records"] == 0
    assert _document(cli("log", "prune", "--days", "1", "--json"), "log-prune")["trials"] == 0


@pytest.mark.parametrize("text", ["", "not a log\n", '{"type": "luthier-log", "version": 99}\n'])
def test_a_bad_import_is_one_sentence(text: str, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text(text)
    done = cli("log", "import", "bad.jsonl")
    assert done.returncode == 1
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_missing_import_is_one_sentence(cli: Cli) -> None:
    done = cli("log", "import", "nothing.jsonl", "--json")
    assert done.returncode == 1
    assert "nothing.jsonl" in done.stderr


def test_an_export_that_cannot_be_written_leaves_nothing(cli: Cli, tmp_path: Path) -> None:
    done = cli("log", "export", "missing/log.jsonl")
    assert done.returncode == 1
    assert "cannot write" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_export_as_json_needs_a_file(cli: Cli) -> None:
    assert cli("log", "export", "--json").returncode == 2
