"""A Canary per number of threads: a matrix product whose constant fills half of a second-level cache."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import onnx

from benchmarks.kernel_models import matmul
from benchmarks.own_kernels import OwnKernels, kernel_subgraphs
from compiler.pipeline import load_graph, lower
from compiler.schedule.source import NoSource
from compiler.target import Target
from luthier.bench.canary import Canary

_ROWS, _COLUMNS = 48, 192
_ELEMENT_BYTES = 4


@contextmanager
def canaries(target: Target, thread_counts: Sequence[int]) -> Iterator[dict[int, Canary]]:
    """The Canary of each count; their teams end with the context."""
    depth = target.l2_bytes // 2 // (_COLUMNS * _ELEMENT_BYTES)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="luthier-canary-")))
        onnx.save(matmul(_ROWS, depth, _COLUMNS), folder / "canary.onnx")
        program = lower(load_graph(folder / "canary.onnx"))
        subgraphs = kernel_subgraphs(program, own_layout=False)
        yield {
            threads: Canary(
                stack.enter_context(closing(OwnKernels(program, subgraphs, target, threads, NoSource())))
            )
            for threads in thread_counts
        }
