"""Teams that Modules share: one for what runs by turns, one each for what runs at the same time."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from compiler.errors import InputError
from compiler.pipeline import compile_program, load_graph, lower
from compiler.runtime.loader import LoadedProgram
from compiler.runtime.module import Module
from compiler.runtime.teams import Team, Teams
from compiler.schedule.source import NoSource
from compiler.target import native_target
from tests.compiler.frontend.models import model

MEMBERS = 3
linux = pytest.mark.skipif(sys.platform != "linux", reason="counts threads as Linux lists them")


def scaled(factor: int, threads: int = MEMBERS) -> Module:
    """Of programs that differ, in what they compute and in how many phases they have."""
    nodes = [helper.make_node("Mul", ["x", "f"], ["m"])]
    nodes += [helper.make_node("MatMul", ["m", "w"], ["y"])] if factor % 2 else []
    constants = {"f": np.float32([factor]), "w": np.eye(300, dtype=np.float32)}
    proto = model(nodes, {"x": [300, 300]}, constants, ["y" if factor % 2 else "m"])
    return compile_program(lower(load_graph(proto)), native_target(), threads, NoSource())


def check(module: Module, factor: int, seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal((300, 300)).astype(np.float32)
    (y,) = module.run({"x": x}).values()
    np.testing.assert_allclose(y, factor * x, rtol=1e-5)


def tasks() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


@linux
def test_modules_that_take_turns_share_a_team() -> None:
    modules = {factor: scaled(factor) for factor in (2, 3, 4, 5)}
    check(modules[2], 2, 0)
    before = tasks()
    for seed in range(20):
        for factor, module in modules.items():
            check(module, factor, seed)
    assert tasks() == before
    for module in modules.values():
        module.close()


@linux
def test_the_threads_end_when_no_module_may_run(monkeypatch: pytest.MonkeyPatch) -> None:
    teams = Teams()  # of which no module of another test is a user
    monkeypatch.setattr("compiler.runtime.loader.TEAMS", teams)
    before = tasks()
    one, other = scaled(2), scaled(3)
    check(one, 2, 0)
    check(other, 3, 0)
    one.close()
    check(other, 3, 1)
    assert (teams.idle, tasks()) == (1, before + MEMBERS - 1)
    other.close()
    assert (teams.idle, tasks()) == (0, before)


def test_what_runs_at_the_same_time_has_teams_of_its_own() -> None:
    modules = {factor: scaled(factor) for factor in (2, 3, 4)}
    failed: list[BaseException] = []

    def run(factor: int) -> None:
        try:
            for seed in range(30):
                check(modules[factor], factor, seed)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(factor,)) for factor in [*modules] * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    for module in modules.values():
        module.close()


def test_code_outlives_the_threads_that_run_it() -> None:
    """The threads' own loop is in the code of the module that ran first."""
    first, second = scaled(2), scaled(3)
    check(first, 2, 0)
    second.run({"x": np.zeros((300, 300), np.float32)})
    first.close()
    del first
    for seed in range(5):
        check(second, 3, seed)
    second.close()


def test_a_team_has_members() -> None:
    class Nothing(LoadedProgram):
        def __init__(self) -> None:
            """No code."""

    with pytest.raises(InputError, match="at least 1"):
        Team(Nothing(), 0)


FORKING = """
import os
from tests.compiler.runtime.test_teams import check, scaled, tasks
module = scaled(3)
check(module, 3, 0)
child = os.fork()
if not child:
    assert tasks() == 1
    check(module, 3, 1)
    assert tasks() == 3, tasks()
    module.close()
    assert tasks() == 1
    os._exit(0)
_, status = os.waitpid(child, 0)
assert status == 0, status
check(module, 3, 2)
module.close()
"""


@linux
def test_a_forked_process_makes_teams_of_its_own() -> None:
    """It has none of the threads, and would wait for them to end."""
    done = subprocess.run(
        [sys.executable, "-c", FORKING], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
