"""What the sandbox takes away is tried out, not read off."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from workers.device import describe_device, device_json

ROOT = Path(__file__).resolve().parent.parent.parent

_TRY = """
import json, os, resource, socket, sys, threading
from workers import sandbox
writable = sys.argv[1]
tier = sandbox.apply(sandbox.Limits(memory_bytes=256 << 20, cpu_s=100, threads=2))

def works(action):
    try:
        action()
    except (OSError, MemoryError, RuntimeError):
        return False
    return True

def connect():
    with socket.socket() as s:
        s.settimeout(2)
        s.connect(("192.0.2.1", 80))

team = [threading.Thread(target=lambda: None) for _ in range(2)]
json.dump({
    "tier": tier.split("+"),
    "write": works(lambda: open(writable, "w").write("x")),
    "append": works(lambda: os.write(0, b"x")),
    "remove": works(lambda: os.remove(sys.argv[2])),
    "connect": works(connect),
    "signal": works(lambda: os.kill(os.getppid(), 0)),
    "execute": works(lambda: os.posix_spawn("/bin/true", ["true"], {})),
    "allocate": works(lambda: bytearray(1200 << 20)),
    "allocate_less": works(lambda: bytearray(200 << 20)),
    "threads": works(lambda: [t.start() or t.join() for t in team]),
    "core": resource.getrlimit(resource.RLIMIT_CORE),
}, sys.stdout)
"""


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    folder = tmp_path_factory.mktemp("sandbox")
    kept = folder / "kept"
    kept.write_text("kept")
    command = [sys.executable, "-c", _TRY, str(folder / "new"), str(kept)]
    with kept.open("a") as opened:
        # Its standard input is a file that was opened for writing before the sandbox.
        done = subprocess.run(command, stdin=opened, capture_output=True, check=False, cwd=ROOT, timeout=60)
    assert done.returncode == 0, done.stderr
    assert kept.read_text() == "kept"
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_limits_hold_everywhere(tried: dict[str, object]) -> None:
    assert tried["allocate"] is False
    assert tried["allocate_less"] is True
    assert tried["write"] is False
    assert tried["append"] is False
    assert tried["threads"] is True
    assert tried["core"] == [0, 0]


@pytest.mark.parametrize(
    ("steps", "action"),
    [
        ({"netns", "landlock"}, "connect"),
        ({"landlock"}, "remove"),
        ({"landlock"}, "execute"),
        ({"landlock"}, "signal"),
    ],
)
def test_a_named_step_holds(tried: dict[str, object], steps: set[str], action: str) -> None:
    tier = tried["tier"]
    assert isinstance(tier, list)
    assert "rlimits" in tier
    if not steps & set(tier):
        pytest.skip(f"this system has none of {sorted(steps)}")
    assert tried[action] is False


def test_the_device_names_its_sandbox() -> None:
    device = describe_device("bench-1")
    assert device.name == "bench-1"
    assert device.cores >= 1
    assert "rlimits" in device.sandbox.split("+")
    assert device_json(device)["sandbox"] == device.sandbox
