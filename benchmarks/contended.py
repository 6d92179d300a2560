"""A model beside a busy thread of the same process: what a team does when another thread wants one of its cores.

    python -m benchmarks.contended MODEL.onnx [--threads 2] [--rounds 12]

The busy thread computes without a pause for the whole of a turn, as threads of other libraries do that spin while they
wait for work. Turns with and without it, of one thread and of a team, alternate;
each line gives medians over the turns of the time per run.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from statistics import median

import numpy as np

import luthier
from compiler.codegen.probes import arithmetic_probe
from compiler.runtime.loader import LoadedKernel
from compiler.target import native_target

TURN_S = 0.02
PAUSE_S = 0.05
"""Idle threads of our own teams are asleep by then."""


def main() -> None:
    """One line for each number of threads, on stdout."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=12)
    given = parser.parse_args()
    modules = {}
    for threads in (1, given.threads):
        module = luthier.compile(given.model, threads=threads)
        if not isinstance(module, luthier.Module) or module.image.symbols:
            parser.error(f"{given.model} leaves sizes open; give a model whose sizes are known")
        modules[threads] = module
    found: dict[tuple[int, bool], list[float]] = {(n, busy): [] for n in modules for busy in (False, True)}
    for _ in range(given.rounds):
        for (threads, busy), taken in found.items():
            with busy_thread() if busy else nullcontext():
                taken.append(turn(modules[threads]))
            time.sleep(PAUSE_S)
    for threads in modules:
        free, beside = (1e3 * median(found[threads, busy]) for busy in (False, True))
        print(f"{threads} threads: {free:8.3f} ms, beside a busy thread {beside:8.3f} ms")


def turn(module: luthier.Module) -> float:
    """Seconds per run, over TURN_S: what holds up one run is in it."""
    rng = np.random.default_rng(0)
    inputs = {s.name: rng.integers(0, 2, s.sizes()).astype(s.dtype.numpy) for s in module.inputs}
    runs, start = 0, time.perf_counter()
    while (passed_s := time.perf_counter() - start) < TURN_S:
        module.run(inputs)
        runs += 1
    return passed_s / runs


@contextmanager
def busy_thread() -> Iterator[None]:
    """A thread that computes, without the interpreter's lock, until the block is left."""
    kernel = LoadedKernel(arithmetic_probe(native_target(), 1, "multiply_add"), 1)
    out = np.zeros(64, np.float32)
    runs = max(1, int(2e6 / kernel.time_ns([out.ctypes.data], 1)))  # two milliseconds
    stop = threading.Event()

    def compute() -> None:
        while not stop.is_set():
            kernel.time_ns([out.ctypes.data], runs)

    thread = threading.Thread(target=compute)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        kernel.close()


if __name__ == "__main__":
    main()
