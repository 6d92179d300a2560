"""Client: submit models to a Luthier service and follow their jobs.

job = Client("http://tuner:8765", token).submit("model.onnx", seconds=600).wait()
job.artifact("model.luthier")
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from compiler.errors import InputError, ServiceError
from luthier.client_http import Event, Http
from luthier.files import check_writable, write_atomically

__all__ = ["Client", "Event", "Job"]

FINISHED = frozenset({"succeeded", "failed", "cancelled"})


class Client:
    """A connection to a service. Thread-safe. Use it as a context manager, or close it."""

    def __init__(self, url: str | None = None, token: str | None = None) -> None:
        """Connect lazily.

        Args:
            url: of the service; None for LUTHIER_SERVER, else the one that `luthier serve` listens on.
            token: None for LUTHIER_TOKEN.

        Raises:
            ServiceError: the URL is malformed.
        """
        if url is None or token is None:
            from service.settings import Settings

            settings = Settings()
            url, token = url or settings.server_url, token or settings.token_text
        self._http = Http(url, token)

    def __enter__(self) -> Client:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def submit(  # noqa: PLR0913  (the options of `luthier tune`, all by name)
        self,
        model: str | Path | bytes,
        *,
        name: str | None = None,
        target: str = "native",
        trials: int | None = None,
        seconds: float | None = None,
        threads: int | None = None,
        shapes: Mapping[str, tuple[int, ...]] | None = None,
        error_budget: float | None = None,
        seed: int = 0,
        runner: str = "local",
        deadlines: Mapping[str, float] | None = None,
    ) -> Job:
        """Upload a model and queue a job for it; the same job, while it waits or runs, is found and not doubled.

        Args:
            model: an ONNX file or its bytes, weights included.
            name: for people; by default the file's name.
            target: name of a target; "native" is the service's machine.
            trials: bound on new trials, failed ones included.
            seconds: bound on the wall clock.
            threads: None for all cores of the service's machine.
            shapes: extents of inputs whose shape the model leaves open.
            error_budget: largest error of an output, relative to the largest; None for the default.
            seed: of the search.
            runner: where candidates are measured, "local" or "ray".
            deadlines: "start_s" and "total_s", seconds since the submission after which the job fails.

        Raises:
            InputError: the file cannot be read.
            ServiceError: the service cannot be reached, or refuses.
        """
        content = _read(model)
        default = "model" if isinstance(model, bytes) else Path(model).stem
        uploaded = self._http.upload("/v1/models", content, name=(name or default)[:200])
        options = {
            "target": target,
            "trials": trials,
            "seconds": seconds,
            "threads": threads,
            "shapes": {key: list(shape) for key, shape in (shapes or {}).items()},
            "error_budget": error_budget,
            "seed": seed,
            "runner": runner,
            "deadlines": dict(deadlines or {}),
        }
        # The key makes a retry after a lost answer find the job instead of starting it again.
        key = {"Idempotency-Key": uuid.uuid4().hex}
        created = self._http.json("POST", "/v1/jobs", {"model": uploaded["id"], **options}, headers=key)
        return Job(self._http, created)

    def job(self, job_id: str) -> Job:
        """A job by id; raises ServiceError where there is none."""
        return Job(self._http, self._http.json("GET", f"/v1/jobs/{job_id}"))

    def jobs(self) -> Iterator[Job]:
        """All jobs, newest first, fetched a page at a time."""
        token: str | None = None
        while True:
            page = self._http.json("GET", "/v1/jobs", params={"page_token": token} if token else None)
            yield from (Job(self._http, item) for item in page["items"])
            token = page["next_page_token"]
            if token is None:
                return


class Job:
    """A TuningJob of the service. Every method raises ServiceError where the service refuses or is away."""

    def __init__(self, http: Http, document: dict[str, Any]) -> None:
        """Made by Client."""
        self._http, self._document = http, document

    @property
    def id(self) -> str:
        """What the service knows it by."""
        return str(self._document["id"])

    @property
    def document(self) -> dict[str, Any]:
        """The service's last answer about it."""
        return dict(self._document)

    @property
    def status(self) -> str:
        """Its state now: queued, running, succeeded, failed or cancelled."""
        return str(self.refresh()._document["state"])

    def refresh(self) -> Job:
        """Ask the service again."""
        self._document = self._http.json("GET", f"/v1/jobs/{self.id}")
        return self

    def events(self, after: int = 0, timeout: float | None = None) -> Iterator[Event]:
        """What happened behind event number `after`, and what happens until it ends; reconnects by itself.

        Raises:
            ServiceError: the service stays away, or `timeout` seconds passed.
        """
        yield from self._http.events(
            f"/v1/jobs/{self.id}/events", after, timeout, lambda: self.status in FINISHED
        )

    def wait(self, timeout: float | None = None, progress: Callable[[Event], None] | None = None) -> Job:
        """Wait until it ends; `progress` is told every event. Interrupting it leaves the job running.

        Raises:
            ServiceError: it failed or was cancelled, or `timeout` seconds passed.
        """
        for event in self.events(timeout=timeout):
            if progress is not None:
                progress(event)
        self.refresh()
        if self._document["state"] != "succeeded":
            why = self._document["error"] or "somebody cancelled it"
            msg = f"job {self.id} {self._document['state']}: {why}"
            raise ServiceError(msg)
        return self

    def cancel(self) -> Job:
        """Cancel it; what it learned is kept. One that has ended stays as it is."""
        self._document = self._http.json("POST", f"/v1/jobs/{self.id}/cancel")
        return self

    def report(self) -> dict[str, Any]:
        """The report of a job that succeeded (the JSON document of `luthier tune`)."""
        report = self._document["report"] or self.refresh()._document["report"]
        if report is None:
            msg = f"job {self.id} is {self._document['state']} and has no report; wait until it has succeeded"
            raise ServiceError(msg)
        return dict(report)

    def artifact(self, path: str | Path) -> Path:
        """Write the compiled model to `path`: all of it, checked against its SHA-256, or nothing.

        Raises:
            InputError: `path` cannot be written.
        """
        path = Path(path)
        check_writable(path)
        write_atomically(path, self._http.download(f"/v1/jobs/{self.id}/artifact"))
        return path


def _read(model: str | Path | bytes) -> bytes:
    if isinstance(model, bytes):
        return model
    try:
        return Path(model).read_bytes()
    except OSError as error:
        msg = f"cannot read the model {str(model)!r} ({error.strerror}); name an ONNX file"
        raise InputError(msg) from None
