"""A real service in a process of its own, and the small model that it tunes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "a-token-for-the-tests-only"
_CODE = """
import sys
from service.serve import run_server
run_server(port=int(sys.argv[1]), database_url=sys.argv[2], token=sys.argv[3])
"""


@dataclass
class Server:
    """A running service."""

    process: subprocess.Popen[str]
    url: str
    database_url: str

    @property
    def port(self) -> int:
        return httpx.URL(self.url).port or 0

    def client(self, token: str | None = TOKEN) -> httpx.Client:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60)

    def kill(self) -> None:
        """kill -9, as a crash would."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


@contextmanager
def serve(database_url: str, port: int = 0) -> Iterator[Server]:
    """A service until the block ends."""
    command = (sys.executable, "-c", _CODE, str(port), database_url, TOKEN)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd="/") as process:
        assert process.stdout is not None
        try:
            yield Server(process, process.stdout.readline().strip(), database_url)
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def small_model(seed: int = 0, features: int = 96, hidden: int = 160) -> bytes:
    """relu(x @ a + b) @ c as ONNX bytes."""
    random = np.random.default_rng(seed)
    values = {"a": (features, hidden), "b": (hidden,), "c": (hidden, 32)}
    weights = [
        numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), name)
        for name, shape in values.items()
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["t0"]),
        helper.make_node("Add", ["t0", "b"], ["t1"]),
        helper.make_node("Relu", ["t1"], ["t2"]),
        helper.make_node("MatMul", ["t2", "c"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (16, features))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (16, 32))],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def upload(client: httpx.Client, model: bytes, name: str = "small") -> httpx.Response:
    headers = {"Content-Type": "application/octet-stream"}
    return client.post("/v1/models", params={"name": name}, content=model, headers=headers)
