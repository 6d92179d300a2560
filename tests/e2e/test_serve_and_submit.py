"""`luthier serve` and `luthier submit`: the same path through a server, as a user types it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from examples.networks import filled

Cli = Callable[..., "subprocess.CompletedProcess[str]"]
ROOT = Path(__file__).resolve().parents[2]
CONTRACTS = ROOT / "docs" / "contracts"


def _validated(text: str, contract: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(text)
    jsonschema.validate(document, json.loads((CONTRACTS / f"{contract}.schema.json").read_text()))
    return document


@pytest.fixture
def server(tmp_path: Path) -> Iterator[dict[str, Any]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "luthier", "serve", "--port", "0", "--json"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield _validated(process.stdout.readline(), "serve")
    finally:
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=60)
    assert rest == ""
    assert process.returncode == 0


def test_a_model_is_tuned_through_a_server(
    server: dict[str, Any], cli_process: Cli, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = filled("mlp", tmp_path)
    refused = cli("submit", model, "--server", server["url"], "--trials", "1")
    assert refused.returncode == 1
    assert "token" in refused.stderr.lower()

    monkeypatch.setenv("LUTHIER_TOKEN", server["token"])
    monkeypatch.setenv("LUTHIER_SERVER", server["url"])
    done = cli_process(
        "submit", model, "--threads", "1", "--trials", "6", "--seconds", "20", "--report", "report", "--json"
    )
    assert done.returncode == 0, done.stderr
    document = _validated(done.stdout, "submit")
    assert document["report"]["trials"] == 6
    assert (tmp_path / "report" / "report.html").is_file()

    compiled = cli("compile", model, "-o", "mlp.luthier", "--threads", "1", "--require-tuned", "--json")
    assert _validated(compiled.stdout, "compile")["hits"] == 3


def test_a_server_that_is_not_there_is_named(cli: Cli, tmp_path: Path) -> None:
    model = filled("mlp", tmp_path)
    done = cli("submit", model, "--server", "http://127.0.0.1:1", "--trials", "1")
    assert done.returncode == 1
    assert "127.0.0.1:1" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
