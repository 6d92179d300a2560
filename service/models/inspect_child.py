"""Runs the frontend on an untrusted model, in a process of its own: `python -m service.models.inspect_child`.

The model comes on stdin. One JSON object goes to stdout: {"tasks": 12} (None where the model needs shapes first), or
{"kind": "ModelError", "message": "..."}.
"""

from __future__ import annotations

import json
import sys
from typing import IO, Any

from compiler.errors import InputError, LuthierError

CPU_S = 300
MEMORY_FACTOR = 8
MEMORY_BASE_BYTES = 6 << 30


def limit_resources(model_bytes: int) -> None:
    """Bound this process: address space, CPU time, no files written, no core dump."""
    try:
        import resource
    except ImportError:
        return
    limits = (
        (resource.RLIMIT_AS, MEMORY_BASE_BYTES + MEMORY_FACTOR * model_bytes),
        (resource.RLIMIT_CPU, CPU_S),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    )
    for kind, value in limits:
        _, hard = resource.getrlimit(kind)
        bounded = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (bounded, bounded))


def inspect_model(data: bytes) -> dict[str, Any]:
    """Count the distinct tasks of a model; raises LuthierError."""
    from compiler.pipeline import load_graph, lower

    graph = load_graph(data)
    try:
        program = lower(graph)
    except InputError:
        return {"tasks": None}
    return {"tasks": len({subgraph.workload.digest for subgraph in program.subgraphs})}


def answer(stream: IO[bytes]) -> dict[str, Any]:
    """What to print for the model on the stream."""
    try:
        data = stream.read()
        limit_resources(len(data))
        return inspect_model(data)
    except LuthierError as error:
        return {"kind": type(error).__name__, "message": str(error)}
    except MemoryError:
        message = "the model needs more memory than the service gives to one; use a smaller one"
        return {"kind": "ModelError", "message": message}
    except RecursionError:
        return {"kind": "ModelError", "message": "the model is nested too deeply; flatten its subgraphs"}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(answer(sys.stdin.buffer)))
