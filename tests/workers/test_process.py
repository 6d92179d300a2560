from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.workers.children import living
from tuner.measure import FailureKind, MeasureFailed
from workers.frames import Frame
from workers.process import START_TIMEOUT_S, Child, classify
from workers.sandbox import Limits

ROOT = Path(__file__).resolve().parent.parent.parent
MEMORY = 256 << 20


@pytest.fixture
def child() -> Iterator[Child]:
    child = Child("probe", MEMORY)
    assert child.receive(START_TIMEOUT_S) == Frame({"event": "ready"})
    yield child
    child.close()


@pytest.mark.parametrize(
    ("decided", "exit_code", "kind"),
    [
        (FailureKind.TIMEOUT, -signal.SIGKILL, FailureKind.TIMEOUT),
        (None, -signal.SIGXCPU, FailureKind.TIMEOUT),
        (FailureKind.OUT_OF_MEMORY, -signal.SIGSEGV, FailureKind.OUT_OF_MEMORY),
        (None, -signal.SIGSEGV, FailureKind.MEMORY_FAULT),
        (None, -signal.SIGBUS, FailureKind.MEMORY_FAULT),
        (None, -signal.SIGFPE, FailureKind.ARITHMETIC_FAULT),
        (None, -signal.SIGILL, FailureKind.CRASH),
        (None, -signal.SIGABRT, FailureKind.CRASH),
        (None, 1, FailureKind.CRASH),
        (None, None, FailureKind.CRASH),
    ],
)
def test_every_end_has_a_kind(decided: FailureKind | None, exit_code: int | None, kind: FailureKind) -> None:
    assert classify(decided, exit_code, 1.0, MEMORY).kind is kind


def test_a_silent_child_is_ended_when_its_time_is_up(child: Child) -> None:
    failure = child.receive(0.1)

    assert failure == MeasureFailed(FailureKind.TIMEOUT, "did not end within 0.1 s")
    assert not living(child.pid)
    assert child.receive(0.1) == failure
    child.send(Frame({}), 0.1)  # to nobody, and without an exception
    assert not child.alive


def test_a_child_that_something_else_kills_is_a_crash(child: Child) -> None:
    os.kill(child.pid, signal.SIGKILL)
    failure = child.receive(10.0)
    assert isinstance(failure, MeasureFailed)
    assert failure.kind is FailureKind.CRASH
    assert not living(child.pid)


@pytest.mark.parametrize("sandboxed", [False, True])
def test_an_exception_of_the_child_is_told(child: Child, *, sandboxed: bool) -> None:
    """In the sandbox too, where its standard error cannot be written."""
    if sandboxed:
        child.send(Frame({"limits": asdict(Limits(MEMORY))}), 10.0)
        assert isinstance(child.receive(10.0), Frame)
    child.send(Frame({"limits": {"unknown": 1}}), 10.0)
    failure = child.receive(10.0)
    assert isinstance(failure, MeasureFailed)
    assert failure.kind is FailureKind.CRASH
    assert "TypeError" in failure.message
    assert "unknown" in failure.message


def test_closing_ends_it_at_once_and_twice_is_fine(child: Child) -> None:
    child.close()
    assert not living(child.pid)
    child.close()


def test_it_sees_neither_our_environment_nor_our_files(child: Child, tmp_path: Path) -> None:
    with (tmp_path / "secret").open("w") as secret:
        os.set_inheritable(secret.fileno(), True)
        other = Child("probe", MEMORY)
        other.receive(START_TIMEOUT_S)
        opened = {p.readlink() for p in Path(f"/proc/{other.pid}/fd").iterdir()}
        environment = Path(f"/proc/{other.pid}/environ").read_bytes()
        folder = str(Path(f"/proc/{other.pid}/cwd").readlink())
        other.close()
    assert tmp_path / "secret" not in opened
    assert b"LUTHIER_DATABASE_URL" not in environment
    assert folder.endswith("(deleted)")


def test_what_builds_gives_way_to_what_measures() -> None:
    nice = {}
    for role in ("build", "measure"):
        with closing(Child(role, MEMORY)) as child:
            assert child.receive(START_TIMEOUT_S) == Frame({"event": "ready"})
            group = Path(f"/proc/{child.pid}/autogroup")
            # A line such as "/autogroup-71 nice 15"; Linux may have none.
            of_group = int(group.read_text().split()[-1]) if group.exists() else None
            nice[role] = os.getpriority(os.PRIO_PROCESS, child.pid), of_group
    assert nice["build"][0] > nice["measure"][0]
    if nice["build"][1] is not None:
        assert nice["build"][1] > nice["measure"][1]


_PARENT = """
import os, sys, time
from workers.process import Child
children = [Child(role, 1 << 28) for role in ("probe", "probe")]
for child in children:
    child.receive(60)
print(*(child.pid for child in children), flush=True)
time.sleep(60)
"""


@pytest.mark.faults
def test_children_die_with_a_parent_that_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert len(pids) == 2
        assert all(living(pid) for pid in pids)
        parent.kill()
    deadline = time.monotonic() + 10
    while any(living(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(living(pid) for pid in pids)
