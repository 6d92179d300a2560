"""Checking an uploaded model without letting it near the service: the frontend runs in a limited child."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import IO, Any

from service import json_text
from service.problems import Problem

TIMEOUT_S = 300.0
MAX_AT_ONCE = 2
_ROOT = Path(__file__).resolve().parents[2]
_LOG = logging.getLogger("luthier.models")
_SLOTS = threading.BoundedSemaphore(MAX_AT_ONCE)
_ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
_SLUGS = {"UnsupportedOperator": "unsupported-operator"}


def count_tasks(model: IO[bytes]) -> int | None:
    """Number of distinct tasks of a model, None where it needs shapes first.

    Args:
        model: an open file with a descriptor; it is read from its start.

    Raises:
        Problem: it is no model that Luthier can use (422), or too many are being checked (503).
    """
    if not _SLOTS.acquire(timeout=TIMEOUT_S):
        detail = "too many models are being checked; try again in a minute"
        raise Problem(503, "busy", detail, headers={"Retry-After": "60"})
    try:
        answer = _ask_child(model)
    finally:
        _SLOTS.release()
    if "kind" in answer:
        slug = _SLUGS.get(str(answer["kind"]), "invalid-model")
        raise Problem(422, slug, str(answer["message"]))
    tasks = answer["tasks"]
    return None if tasks is None else int(tasks)


def _ask_child(model: IO[bytes]) -> dict[str, Any]:
    model.seek(0)
    with tempfile.TemporaryDirectory(prefix="luthier-") as folder:
        command = (sys.executable, "-P", "-m", "service.models.inspect_child")
        try:
            done = subprocess.run(
                command,
                stdin=model,
                capture_output=True,
                timeout=TIMEOUT_S,
                cwd=folder,
                env={**_ENVIRONMENT, "PYTHONPATH": str(_ROOT)},
                start_new_session=True,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return _refusal(f"the model could not be checked within {TIMEOUT_S:.0f} s; use a smaller one")
    try:
        answer = json_text.parse(done.stdout.decode())
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        _LOG.warning(
            "the check of a model ended with code %s: %s",
            done.returncode,
            done.stderr[-2000:].decode(errors="replace"),
        )
        return _refusal(
            f"checking the model broke off (code {done.returncode}); use a smaller or simpler one"
        )
    return answer


def _refusal(message: str) -> dict[str, Any]:
    return {"kind": "ModelError", "message": message}
