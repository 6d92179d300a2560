"""Orchestrator: one thread that takes jobs from the ledger, one at a time, each in a process of its own.

A job whose process dies, or whose server was killed, is still in the ledger and is taken again. Cancelling and
shutting down are asked of the process first, and enforced after a grace period: what it stored is safe at any moment.
"""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from compiler.errors import DatabaseError
from service import json_text
from service.db.session import Database
from service.jobs.ledger import JobLedger

POLL_S = 1.0
TICK_S = 0.2
GRACE_S = 8.0
_ROOT = Path(__file__).resolve().parents[2]
_LOG = logging.getLogger("luthier.orchestrator")


class Orchestrator:
    """Start it once, stop it once."""

    def __init__(self, database: Database, database_url: str) -> None:
        """Take jobs of this database; `database_url` is how the job processes open it."""
        self._ledger = JobLedger(database)
        self._url = database_url
        self._stopping = threading.Event()
        self._news = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="luthier-orchestrator", daemon=True)

    @property
    def is_alive(self) -> bool:
        """Whether jobs are taken."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Begin to take jobs; those of a killed server first."""
        self._thread.start()

    def wake(self) -> None:
        """Look at the ledger at once."""
        self._news.set()

    def stop(self) -> None:
        """Put the running job back into the queue and end, within the grace period."""
        self._stopping.set()
        self._news.set()
        if self._thread.is_alive():
            self._thread.join()

    def _loop(self) -> None:
        while not self._stopping.is_set():
            try:
                self._ledger.expire()
                job = self._ledger.next_job()
                if job is not None:
                    self._run(job)
                    continue
            except DatabaseError as error:
                _LOG.warning("the ledger cannot be read: %s", error)
            except Exception:
                _LOG.exception("a bug in the orchestrator")
            self._news.wait(POLL_S)
            self._news.clear()

    def _run(self, job: str) -> None:
        _LOG.info("job %s starts", job)
        process = subprocess.Popen(
            (sys.executable, "-m", "service.jobs.child"),
            stdin=subprocess.PIPE,
            cwd=_ROOT,
            start_new_session=True,
        )
        try:
            assert process.stdin is not None
            process.stdin.write(json_text.dump({"database": self._url, "job": job}).encode())
            process.stdin.close()
            self._supervise(process, job)
        except BrokenPipeError:
            pass
        finally:
            _kill(process)
        if process.returncode != 0 and not self._stopping.is_set():
            _LOG.error("the process of job %s ended with code %s", job, process.returncode)
            self._news.clear()
            self._news.wait(POLL_S)  # not in a tight circle

    def _supervise(self, process: subprocess.Popen[bytes], job: str) -> None:
        asked_s: float | None = None
        while process.poll() is None:
            stopping = self._stopping.wait(TICK_S)
            if stopping and asked_s is None:
                process.send_signal(signal.SIGTERM)
            if asked_s is None and (stopping or self._is_cancelled(job)):
                asked_s = time.monotonic()
            if asked_s is not None and time.monotonic() - asked_s > GRACE_S:
                return

    def _is_cancelled(self, job: str) -> bool:
        try:
            self._ledger.expire()
            found = self._ledger.get(job)
        except DatabaseError:
            return False
        return found is not None and found.cancel_requested


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the process; its workers end with it, because the kernel ties them to it."""
    if process.stdin is not None and not process.stdin.closed:
        process.stdin.close()
    process.kill()
    process.wait()
