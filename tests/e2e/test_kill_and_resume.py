"""kill -9 of `luthier tune` in mid-job, then the same command again: it resumes and ends, and loses nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from examples.networks import filled
from service.db.upgrade import open_database
from service.records.log import SqlTuningLog

ROOT = Path(__file__).resolve().parents[2]
TRIALS = 16
WAIT_S = 120.0


def _start(model: Path, folder: Path) -> subprocess.Popen[str]:
    options = ("--threads", "1", "--trials", str(TRIALS), "--seconds", "60", "--json")
    return subprocess.Popen(
        [sys.executable, "-m", "luthier", "tune", str(model), *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _exported(url: str, path: Path) -> list[str]:
    """Every trial in the log, one line each, in the order in which they were added."""
    database = open_database(url)
    try:
        with path.open("w") as stream:
            SqlTuningLog(database).export(stream)
    finally:
        database.close()
    return [line for line in path.read_text().splitlines() if json.loads(line)["type"] == "trial"]


def _wait_for_trials(url: str, process: subprocess.Popen[str], folder: Path) -> list[str]:
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        assert process.poll() is None, "the job ended before it could be killed"
        if found := _exported(url, folder / "log.jsonl"):
            return found
        time.sleep(0.05)
    raise AssertionError("no trial was stored")


def test_a_killed_job_resumes(tmp_path: Path) -> None:
    model = filled("mlp", tmp_path)
    url = os.environ["LUTHIER_DATABASE_URL"]
    killed = _start(model, tmp_path)
    try:
        _wait_for_trials(url, killed, tmp_path)
    finally:
        killed.send_signal(signal.SIGKILL)
        killed.communicate()
    kept = _exported(url, tmp_path / "log.jsonl")
    assert 0 < len(kept) < TRIALS

    resumed = _start(model, tmp_path)
    output, errors = resumed.communicate(timeout=WAIT_S)
    assert resumed.returncode == 0, errors
    report = json.loads(output)
    trials = _exported(url, tmp_path / "log.jsonl")
    assert trials[: len(kept)] == kept
    assert report["trials"] == len(trials) == TRIALS
    measured = {(t["key"]["workload"], json.dumps(t["schedule"])) for t in map(json.loads, trials)}
    assert len(measured) == TRIALS
