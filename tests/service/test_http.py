"""The service over real HTTP: models, records, tokens, limits and problem documents."""

from __future__ import annotations

import json
import socket
import uuid
from collections.abc import Iterator

import httpx
import pytest

from service.db.upgrade import open_database
from service.records.log import SqlTuningLog
from service.tokens import TokenStore
from tests.service import samples
from tests.service.server import Server, small_model, upload
from tests.tuner import toy


@pytest.fixture
def client(server: Server) -> Iterator[httpx.Client]:
    with server.client() as opened:
        yield opened


def problem(response: httpx.Response, status: int, slug: str) -> str:
    """The detail of a problem document."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    document = response.json()
    assert document["type"] == f"urn:luthier:problem:{slug}"
    assert document["status"] == status
    assert document["title"]
    assert "Traceback" not in response.text
    assert ";" in document["detail"]
    return str(document["detail"])


def test_an_uploaded_model_is_checked_and_found_again(client: httpx.Client) -> None:
    model = small_model(seed=1)
    first = upload(client, model, "first")
    assert first.status_code == 201
    assert first.json() | {"created_s": 0} == {
        "id": first.json()["id"],
        "name": "first",
        "bytes": len(model),
        "tasks": 2,
        "created_s": 0,
    }
    again = upload(client, model, "other name")
    assert again.status_code == 200
    assert again.json() == first.json()
    assert client.get(f"/v1/models/{first.json()['id']}").json() == first.json()


@pytest.mark.parametrize("body", [b"", b"garbage", small_model()[:2000], b"\x0a" * 1000])
def test_what_is_no_model_is_refused(client: httpx.Client, body: bytes) -> None:
    known = len(client.get("/v1/models", params={"page_size": 1000}).json()["items"])
    problem(upload(client, body), 422, "invalid-model")
    assert len(client.get("/v1/models", params={"page_size": 1000}).json()["items"]) == known


def test_models_are_paged(client: httpx.Client) -> None:
    ids = {upload(client, small_model(seed)).json()["id"] for seed in (11, 12, 13)}
    found: list[str] = []
    token = None
    while True:
        params = {"page_size": "2", **({"page_token": token} if token else {})}
        page = client.get("/v1/models", params=params).json()
        found += [item["id"] for item in page["items"]]
        token = page["next_page_token"]
        if token is None:
            break
    assert len(found) == len(set(found))
    assert ids <= set(found)


@pytest.mark.parametrize("token", ["nonsense", "W10=", "bnVsbA==", "WyJhIiwgImIiXQ=="])
def test_a_page_token_of_others_is_refused(client: httpx.Client, token: str) -> None:
    problem(client.get("/v1/models", params={"page_token": token}), 422, "invalid-request")


@pytest.mark.parametrize(
    "path", ["/v1/models", "/v1/jobs", "/v1/records", "/v1/records/export", "/v1/targets"]
)
def test_nothing_is_shown_without_a_token(server: Server, path: str) -> None:
    for token in (None, "wrong", "a-token-for-the-tests-onlY"):
        with server.client(token) as client:
            response = client.get(path)
            problem(response, 401, "unauthorized")
            assert response.headers["www-authenticate"] == "Bearer"
    with server.client() as client:
        assert client.get(path).status_code == 200


def test_a_revoked_token_is_refused_at_once(server: Server) -> None:
    database = open_database(server.database_url)
    tokens = TokenStore(database)
    token = tokens.create()
    with server.client(token) as client:
        assert client.get("/v1/jobs").status_code == 200
        assert tokens.revoke(token[:14]) == 1
        problem(client.get("/v1/jobs"), 401, "unauthorized")
    assert token not in str([vars(t) if hasattr(t, "__dict__") else repr(t) for t in tokens.all()])
    database.close()


def test_problems_name_what_to_do(client: httpx.Client) -> None:
    problem(client.get("/v1/jobs/none"), 404, "not-found")
    problem(client.get("/v1/models/sha256:none"), 404, "not-found")
    problem(client.get("/nowhere"), 404, "not-found")
    problem(client.delete("/v1/jobs"), 405, "method-not-allowed")
    problem(client.get("/v1/jobs", params={"page_size": "0"}), 422, "invalid-request")
    problem(client.get("/v1/jobs", params={"state": "lost"}), 422, "invalid-request")
    problem(
        client.post("/v1/jobs", content=b"{}", headers={"Content-Type": "text/plain"}),
        415,
        "unsupported-media-type",
    )
    problem(client.post("/v1/models", json={}), 415, "unsupported-media-type")


@pytest.mark.parametrize(
    "change",
    [
        {"trials": -1},
        {"trials": "many"},
        {"seconds": 0},
        {"seconds": -5},
        {"threads": 0},
        {"threads": 1.5},
        {"shapes": {"x": [0]}},
        {"shapes": {"x": ["a"]}},
        {"error_budget": 2},
        {"seed": -1},
        {"runner": "cloud"},
        {"unknown": 1},
        {"model": None},
    ],
)
def test_a_job_with_bad_options_is_refused(client: httpx.Client, change: dict[str, object]) -> None:
    detail = problem(client.post("/v1/jobs", json={"model": "sha256:0", **change}), 422, "invalid-request")
    assert next(iter(change)) in detail


def test_a_job_needs_a_known_model_and_target(client: httpx.Client) -> None:
    problem(client.post("/v1/jobs", json={"model": "sha256:" + "0" * 64}), 404, "not-found")
    for target in ("pdp-11", "aarch64-neoverse-n1"):
        answer = client.post("/v1/jobs", json={"model": "sha256:0", "target": target})
        assert target in problem(answer, 422, "unknown-target")


def test_bodies_have_limits(client: httpx.Client) -> None:
    json_type = {"Content-Type": "application/json"}
    problem(client.post("/v1/jobs", content=b" " * (2 << 20), headers=json_type), 413, "too-large")

    def chunked() -> Iterator[bytes]:
        for _ in range(40):
            yield b" " * 65536

    problem(client.post("/v1/jobs", content=chunked(), headers=json_type), 413, "too-large")
    deep = b'{"model": ' + b"[" * 50_000 + b"]" * 50_000 + b"}"
    problem(client.post("/v1/jobs", content=deep, headers=json_type), 422, "invalid-request")
    problem(client.post("/v1/jobs", content=b'{"model": ', headers=json_type), 422, "invalid-request")
    problem(client.post("/v1/jobs", content=b"\xff\xfe", headers=json_type), 422, "invalid-request")


def test_a_model_that_announces_too_much_is_refused_before_it_is_sent(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(
            b"POST /v1/models HTTP/1.1\r\nHost: x\r\nContent-Type: application/octet-stream\r\n"
            b"Content-Length: 3000000000\r\n\r\n"
        )
        answer = b"".join(iter(lambda: connection.recv(4096), b"")).decode()
    assert answer.startswith("HTTP/1.1 413")
    assert "larger than 2 GiB; send less" in answer


def test_the_same_key_and_request_get_the_same_answer(client: httpx.Client) -> None:
    model = upload(client, small_model(seed=21)).json()["id"]
    key = {"Idempotency-Key": uuid.uuid4().hex}
    body = {"model": model, "trials": 1, "threads": 1, "seed": 5}
    first = client.post("/v1/jobs", json=body, headers=key)
    assert first.status_code == 201
    client.post(f"/v1/jobs/{first.json()['id']}/cancel")
    again = client.post("/v1/jobs", json=body, headers=key)
    assert (again.status_code, again.json()) == (201, first.json())
    other = client.post("/v1/jobs", json={**body, "trials": 2}, headers=key)
    problem(other, 422, "idempotency-key-reused")


def test_records_are_listed_looked_up_and_moved(server: Server, client: httpx.Client) -> None:
    database = open_database(server.database_url)
    log = SqlTuningLog(database)
    log.put_tasks([samples.TASK])
    log.put_records([samples.record(1e-3), samples.record(2e-3, key=toy.task(128).key)])
    log.append_trials([samples.trial(1), samples.trial(2, None)])
    database.close()

    task = samples.TASK
    asked = {"page_size": 1, "target": task.target.digest}
    page = client.get("/v1/records", params=asked).json()
    (first,) = page["items"]
    (second,) = client.get("/v1/records", params={**asked, "page_token": page["next_page_token"]}).json()[
        "items"
    ]
    found = {first["key"]["workload"], second["key"]["workload"]}
    assert found == {task.workload.digest, toy.task(128).workload.digest}

    ask = {
        "threads": task.threads,
        "error_class": task.key.error_class,
        "workloads": [task.workload.digest, "0" * 64],
    }
    for target in (task.target.digest, task.target.name):
        reply = client.post("/v1/records/lookup", json={**ask, "target": target}).json()
        assert [a["lookup"] for a in reply["answers"]] == ["exact", "miss"]
        assert (reply["hits"], reply["misses"]) == (1, 1)
    problem(client.post("/v1/records/lookup", json={**ask, "target": "pdp-11"}), 422, "unknown-target")

    exported = client.get("/v1/records/export").text
    lines = [json.loads(line) for line in exported.splitlines()]
    assert {line["type"] for line in lines} == {"luthier-log", "target", "workload", "record", "trial"}
    jsonl = {"Content-Type": "application/jsonl"}
    reply = client.post("/v1/records/import", content=exported, headers=jsonl).json()
    assert reply == {"lines": len(lines), "records": 0, "trials": 0}
    broken = exported + '{"type": "record"}\n'
    detail = problem(client.post("/v1/records/import", content=broken, headers=jsonl), 422, "invalid-input")
    assert detail.startswith(f"line {len(lines) + 1} ")


def test_targets_name_this_machine(client: httpx.Client) -> None:
    targets = client.get("/v1/targets").json()["items"]
    assert {"native", "x86-64-v4"} <= {target["name"] for target in targets}


def test_health_and_metrics_need_no_token(server: Server) -> None:
    with server.client(None) as client:
        assert client.get("/livez").json() == {"status": "ok"}
        assert client.get("/readyz").json() == {"status": "ok"}
        text = client.get("/metrics").text
    assert 'luthier_http_requests_total{method="GET",route="/livez",status="200"} ' in text
    assert "# TYPE luthier_jobs gauge" in text
