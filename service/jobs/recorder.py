"""Recorder: keeps the ledger informed while a job runs, and brings back whether it shall stop."""

from __future__ import annotations

import enum
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from compiler.errors import DatabaseError
from service.jobs.job import Claim
from service.jobs.ledger import HEARTBEAT_TIMEOUT_S, ClaimLost, JobLedger
from service.jobs.report import Spent
from tuner.outcome import Event

TICK_S = 0.5
_LOG = logging.getLogger("luthier.jobs")


class Stop(enum.Enum):
    """Why a job stops before its end."""

    CANCEL = "cancel"  # somebody asked for it
    RELEASE = "release"  # this process shall end; the job goes on elsewhere or later
    LOST = "lost"  # another process runs it now


class Recorder:
    """Events go in from the working thread; a thread of its own writes them, a batch a tick, with a heartbeat.

    Use it as a context manager. `interrupted` is asked every tick whether the process itself wants to stop.
    """

    def __init__(
        self,
        ledger: JobLedger,
        claim: Claim,
        spent: Spent,
        interrupted: Callable[[], Stop | None],
        listener: Callable[[Event], None] | None = None,
    ) -> None:
        """Record for this claim; `spent` is what earlier attempts used, `listener` is told every Event too."""
        self._ledger, self._claim, self._spent, self._interrupted = ledger, claim, spent, interrupted
        self._listener = listener or (lambda event: None)
        self._start_s = time.monotonic()
        self._lock = threading.Lock()
        self._events: list[tuple[str, Mapping[str, Any]]] = []
        self._phase, self._trials, self._failed = "starting", 0, 0
        self._wrote_s = self._start_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="luthier-recorder", daemon=True)
        self.stop: Stop | None = None

    def __enter__(self) -> Recorder:
        """Start to record."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Write what is left and end."""
        self._ended.set()
        self._thread.join()

    def __call__(self, event: Event) -> None:
        """Note an event."""
        # The session's own states are not the job's: only where the job stands is worth telling.
        if event.type != "state" or "phase" in event.data:
            with self._lock:
                self._phase = str(event.data.get("phase", self._phase))
                if event.type == "trial":
                    self._trials += 1
                    self._failed += event.data.get("failure") is not None
                self._events.append((event.type, event.data))
        self._listener(event)

    def ask(self) -> Stop | None:
        """Whether to stop, asked right now rather than at the next tick."""
        self.stop = self.stop or self._interrupted()
        return self.stop

    def should_stop(self) -> bool:
        """Whether the work shall end, for whatever reason."""
        return self.stop is not None

    def _loop(self) -> None:
        while not self._ended.wait(TICK_S):
            self.ask()
            self._write()
        self._write()

    def _write(self) -> None:
        if self.stop is Stop.LOST:
            return
        with self._lock:
            events, self._events = self._events, []
            progress = self._progress()
        try:
            cancel = self._ledger.note(self._claim, events, progress)
        except ClaimLost:
            self.stop = Stop.LOST
        except DatabaseError as error:
            self._keep(events, error)
        else:
            self._wrote_s = time.monotonic()
            if cancel and self.stop is None:
                self.stop = Stop.CANCEL

    def _progress(self) -> dict[str, Any]:
        return {
            "phase": self._phase,
            "trials": self._spent.trials + self._trials,
            "failed_trials": self._spent.failed + self._failed,
            "new_trials": self._trials,
            "seconds": self._spent.seconds + time.monotonic() - self._start_s,
        }

    def _keep(self, events: list[tuple[str, Mapping[str, Any]]], error: DatabaseError) -> None:
        """A database that is away for a moment costs nothing; one that stays away would let another take the job."""
        _LOG.warning("progress could not be written: %s", error)
        with self._lock:
            self._events = events + self._events
        if time.monotonic() - self._wrote_s > HEARTBEAT_TIMEOUT_S:
            self.stop = Stop.LOST
