"""What a run costs beside its kernels, and runs at the same time: memory, system calls, threads, cores."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from compiler.pipeline import compile_program, load_graph, lower, lower_any_size
from compiler.runtime.module import Module
from compiler.schedule.source import NoSource
from compiler.target import native_target
from tests.compiler.runtime.filtered_run import NO_FILTER
from tests.compiler.runtime.test_module import compiled, expected, random_input
from tests.compiler.runtime.test_profile import chain, random_rows

ROOT = Path(__file__).resolve().parents[3]
LIMIT_S = 120
SMALL_BYTES = 4096


def child(*arguments: str, cores: set[int] | None = None) -> subprocess.CompletedProcess[str]:
    """A fresh Python on the given cores from its start."""

    def pin() -> None:
        if cores is not None:
            os.sched_setaffinity(0, cores)

    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        env=environment,
        timeout=LIMIT_S,
        preexec_fn=pin,
        check=False,
    )


@pytest.mark.parametrize("threads", [1, 2])
def test_run_into_makes_no_system_call_but_to_wake_the_team(threads: int) -> None:
    script = str(Path(__file__).with_name("filtered_run.py"))
    run = child(script, str(threads))
    if run.returncode == NO_FILTER:
        pytest.skip("this system has no seccomp filter")
    assert run.returncode == 0, run.stderr


def test_run_into_allocates_no_arrays() -> None:
    module = compile_program(lower(load_graph(chain(256))), native_target(), 1, NoSource())
    inputs, outputs = random_rows(256), {"y": np.empty((256, 8), np.float32)}
    for _ in range(3):
        module.run_into(inputs, outputs)
    tracemalloc.start()
    try:
        held = tracemalloc.get_traced_memory()[0]
        for _ in range(10):
            module.run_into(inputs, outputs)
        now, peak = tracemalloc.get_traced_memory()
        module.run(inputs)
        fresh = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert now - held < SMALL_BYTES
    assert peak - held < SMALL_BYTES
    # What would show if there were any: `run` makes its output.
    assert fresh - held >= outputs["y"].nbytes


def all_at_once(calls: list[Callable[[], None]]) -> None:
    """Every call in a thread of its own, started together; raises the first error, also when one does not end."""
    errors: list[BaseException] = []
    start = threading.Barrier(len(calls))

    def guarded(call: Callable[[], None]) -> None:
        try:
            start.wait(LIMIT_S)
            call()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(call,), daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    assert not any(thread.is_alive() for thread in threads), "a call did not end"
    if errors:
        raise errors[0]


def caller(module: Module, seed: int, runs: int = 4) -> Callable[[], None]:
    x = random_input(seed)
    wanted = expected(x)

    def call() -> None:
        for _ in range(runs):
            got = module.run({"x": x})
            for name, array in wanted.items():
                assert np.max(np.abs(got[name] - array)) <= 1e-5 * np.max(np.abs(array))

    return call


def test_many_threads_call_one_module() -> None:
    module = compiled(2)
    all_at_once([caller(module, seed) for seed in range(32)])
    module.close()


def test_many_modules_in_one_process() -> None:
    images = [compiled(threads).image for threads in (1, 2, 3)]
    modules = [Module(images[number % 3]) for number in range(8)]
    all_at_once([caller(modules[seed % 8], seed) for seed in range(16)])
    for module in modules:
        module.close()
        caller(module, 0, runs=1)()


def test_a_module_of_any_size_is_called_with_different_sizes_at_once() -> None:
    module = compile_program(lower_any_size(chain("rows")), native_target(), 2, NoSource())
    alone = {rows: module.run(random_rows(rows))["y"] for rows in (1, 3, 17, 40)}

    def call(rows: int) -> Callable[[], None]:
        def run() -> None:
            for _ in range(4):
                np.testing.assert_array_equal(module.run(random_rows(rows))["y"], alone[rows])

        return run

    all_at_once([call(rows) for rows in [*alone] * 4])
    module.close()


PINNED = """
import os
from pathlib import Path
import numpy as np
from compiler.target import usable_cores
from luthier.build import make_options
from tests.compiler.runtime.test_module import assert_close, compiled, expected, random_input

def tasks():
    return {int(task.name) for task in Path("/proc/self/task").iterdir()}

def cores():
    return {frozenset(os.sched_getaffinity(task)) for task in tasks()}

def check(module):
    for seed in range(4):
        assert_close(module.run({"x": random_input(seed)}), expected(random_input(seed)))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="affinity is Linux's")
def test_the_cores_of_the_process_are_respected_from_its_start() -> None:
    core = min(os.sched_getaffinity(0))
    code = f"""{PINNED}
assert usable_cores() == 1
assert make_options().threads == 1
module = compiled(3)
check(module)
assert cores() == {{frozenset([{core}])}}, cores()
"""
    done = child("-c", code, cores={core})
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_cores_that_are_taken_away_later_are_left() -> None:
    code = f"""{PINNED}
others = tasks()  # of libraries
module = compiled(2)
check(module)
core, second = sorted(os.sched_getaffinity(0))[:2]

# The caller's alone: the next team is made where it is.
os.sched_setaffinity(0, {{second}})
module.close()
check(module)
assert len(tasks() - others) == 1
assert all(os.sched_getaffinity(task) == {{second}} for task in tasks() - others)

# The whole process's, as `taskset -a -p` does: a team of two shares a core, and still ends.
for task in tasks():
    os.sched_setaffinity(task, {{core}})
check(module)
assert usable_cores() == 1
assert cores() == {{frozenset([core])}}
"""
    done = child("-c", code)
    assert done.returncode == 0, done.stderr
