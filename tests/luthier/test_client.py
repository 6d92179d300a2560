"""The client against a real service, and against none."""

from __future__ import annotations

import hashlib
import http.server
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from compiler.errors import InputError, ServiceError
from luthier.client import Client, Event
from luthier.client_http import parse_events
from tests.service.server import TOKEN, serve, small_model


class Canned(http.server.BaseHTTPRequestHandler):
    """Answers what the test planned, one answer a request: (status, content type, body)."""

    answers: list[tuple[int, str, bytes]]
    seen: list[tuple[str, str | None]]

    def do_GET(self) -> None:
        self.seen.append((self.path, self.headers.get("Last-Event-ID")))
        status, kind, body = self.answers.pop(0)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("ETag", hashlib.sha256(b"right").hexdigest())
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def canned() -> Iterator[tuple[Client, type[Canned]]]:
    handler = type("Handler", (Canned,), {"answers": [], "seen": []})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        with Client(f"http://127.0.0.1:{server.server_port}", TOKEN) as client:
            yield client, handler
        server.shutdown()
        thread.join()


JOB = b'{"id": "j", "state": "%s", "report": null, "error": %s}'
QUEUED = (200, "application/json", JOB % (b"queued", b"null"))
FAILED = (200, "application/json", JOB % (b"failed", b'"it broke; mend it"'))


def stream(*seqs: int) -> tuple[int, str, bytes]:
    text = ": ping\n\n" + "".join(f'event: trial\ndata: {{"n": {seq}}}\nid: {seq}\n\n' for seq in seqs)
    return 200, "text/event-stream", text.encode() + b"event: trial\ndata: {"


def test_a_stream_that_breaks_is_taken_up_where_it_was(canned: tuple[Client, type[Canned]]) -> None:
    client, handler = canned
    away = (503, "text/plain", b"")
    handler.answers = [QUEUED, stream(1, 2), QUEUED, away, stream(3), FAILED, FAILED]
    seen: list[Event] = []
    with pytest.raises(ServiceError, match="job j failed: it broke; mend it"):
        client.job("j").wait(progress=seen.append)
    assert [(event.seq, event.data["n"]) for event in seen] == [(1, 1), (2, 2), (3, 3)]
    assert [last for path, last in handler.seen if path.endswith("/events")] == ["0", "2", "2"]


def test_waiting_has_a_limit(canned: tuple[Client, type[Canned]]) -> None:
    client, handler = canned
    handler.answers = [QUEUED, *[stream(), QUEUED] * 20]
    with pytest.raises(ServiceError, match="not ended after 1 s; wait longer or cancel"):
        client.job("j").wait(timeout=1)


def test_a_service_that_is_busy_is_asked_again(canned: tuple[Client, type[Canned]]) -> None:
    client, handler = canned
    handler.answers = [(503, "text/plain", b""), (502, "text/html", b"<p>"), QUEUED]
    assert client.job("j").id == "j"


def test_a_damaged_artifact_is_not_written(canned: tuple[Client, type[Canned]], tmp_path: Path) -> None:
    client, handler = canned
    handler.answers = [
        QUEUED,
        (200, "application/octet-stream", b"wrong"),
        (200, "application/octet-stream", b"right"),
    ]
    job = client.job("j")
    path = tmp_path / "model.luthier"
    with pytest.raises(ServiceError, match="damaged; try again"):
        job.artifact(path)
    assert list(tmp_path.iterdir()) == []
    assert job.artifact(path).read_bytes() == b"right"
    with pytest.raises(InputError, match="folder"):
        job.artifact(tmp_path)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((200, "text/html", b"<html>"), "does not answer like a Luthier service"),
        ((200, "application/json", b"[]"), "does not answer like a Luthier service"),
        ((404, "text/html", b"<html>"), "it answered 404"),
        ((401, "application/problem+json", b'{"detail": "use another token"}'), "refused: use another token"),
    ],
)
def test_an_answer_that_is_no_job_is_one_sentence(
    canned: tuple[Client, type[Canned]], answer: tuple[int, str, bytes], message: str
) -> None:
    client, handler = canned
    handler.answers = [answer]
    with pytest.raises(ServiceError, match=message) as caught:
        client.job("j")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "token"),
    [("", None), ("ftp://host", None), ("http://", None), ("http://[::1", None), ("http://host", "a\nb")],
)
def test_an_address_that_is_none_is_refused(url: str, token: str | None) -> None:
    with pytest.raises(ServiceError, match="no address of a service"):
        Client(url, token or "t")


def test_a_service_that_is_not_there_is_named() -> None:
    start_s = time.monotonic()
    with (
        Client("http://127.0.0.1:1", TOKEN) as client,
        pytest.raises(ServiceError, match="cannot be reached") as caught,
    ):
        client.submit(b"model")
    assert "luthier serve" in str(caught.value)
    assert time.monotonic() - start_s < 10


def test_a_model_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with Client("http://127.0.0.1:1", TOKEN) as client:
        for path in (tmp_path, tmp_path / "none.onnx"):
            with pytest.raises(InputError, match="cannot read the model"):
                client.submit(path)


def test_a_real_service_queues_and_refuses(tmp_path: Path) -> None:
    with serve(f"sqlite:///{tmp_path / 'log.db'}") as server:
        with (
            Client(server.url, "wrong-token-entirely") as client,
            pytest.raises(ServiceError, match="token is not known"),
        ):
            next(client.jobs())
        with Client(server.url, TOKEN) as client:
            with pytest.raises(ServiceError, match="ONNX"):
                client.submit(b"garbage")
            with pytest.raises(ServiceError, match="threads"):
                client.submit(small_model(), threads=0)
            with pytest.raises(ServiceError, match="there is no job"):
                client.job("none")
            job = client.submit(small_model(), trials=400)
            assert client.submit(small_model(), trials=400).id == job.id
            with pytest.raises(ServiceError, match="has no report; wait"):
                job.report()
            with pytest.raises(ServiceError, match="no artifact; wait"):
                job.artifact(tmp_path / "model.luthier")
            job.cancel()
            with pytest.raises(ServiceError, match="cancelled"):
                job.wait(timeout=30)
        assert not (tmp_path / "model.luthier").exists()


def test_an_event_may_span_lines() -> None:
    lines = ["id: 7", "event: best", 'data: {"a":', "data: 1}", "", "retry: 3", "", ":", "data: 1"]
    assert list(parse_events(iter(lines))) == [Event(7, "best", {"a": 1}), None]
