"""Building, inside the child: a Workload and a Schedule become machine code."""

from __future__ import annotations

import time
from collections.abc import Callable

from compiler.codegen.kernel import kernels_json
from compiler.errors import LuthierError
from compiler.pipeline import build_kernel
from compiler.schedule.schedule import schedule_from_json
from compiler.target import target_from_json
from compiler.workload.ir import workload_from_json
from workers import sandbox
from workers.frames import Frame


def serve(request: Frame, reply: Callable[[Frame], None]) -> None:
    """Answer one request: `kernels` (one) and its objects, or `failed` and why; the first one brings `limits`."""
    header = request.header
    if "limits" in header:
        reply(Frame(sandbox.enter(header["limits"])))
    start = time.perf_counter()
    try:
        kernel = build_kernel(
            workload_from_json(header["workload"]),
            schedule_from_json(header["schedule"]),
            target_from_json(header["target"]),
        )
    except LuthierError as error:
        reply(Frame({"failed": str(error)}))
    except Exception as error:  # A bug of the compiler costs this candidate, not the run.
        reply(Frame({"failed": f"{type(error).__name__}: {error}"}))
    else:
        seconds = time.perf_counter() - start
        kernels, objects = kernels_json([kernel])
        reply(Frame({"kernels": kernels, "build_s": seconds}, objects))
