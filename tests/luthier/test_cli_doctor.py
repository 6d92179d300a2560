from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

from compiler.target import PRESETS
from luthier.health import constants

Cli = Callable[..., "subprocess.CompletedProcess[str]"]
CONTRACT = Path(__file__).resolve().parents[2] / "docs" / "contracts" / "doctor.schema.json"


def test_a_working_machine_is_well(cli: Cli) -> None:
    done = cli("doctor", "--json")
    assert done.returncode == 0, done.stdout
    document = json.loads(done.stdout)
    jsonschema.validate(document, json.loads(CONTRACT.read_text()))
    assert [check["name"] for check in document["checks"]] == [
        "machine",
        "tuning log",
        "compiler",
        "measurement",
    ]
    assert document["versions"]["llvmlite"]


def test_a_broken_database_is_one_failed_check_of_many(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUTHIER_DATABASE_URL", "nonsense")
    done = cli("doctor", "--json")
    assert done.returncode == 1
    failed = [check["name"] for check in json.loads(done.stdout)["checks"] if not check["ok"]]
    assert failed == ["tuning log"]


def test_it_says_where_trials_find_constants() -> None:
    assert "come from memory" in constants(PRESETS["x86-64-v3"])
    assert "trials find large constants near" in constants(PRESETS["aarch64-cortex-a72"])
