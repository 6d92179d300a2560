"""A private PostgreSQL cluster for the tests: its own folder, its own port, an unprivileged user where we are root."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

START_TIMEOUT_S = 60


def binaries() -> Path | None:
    """Folder of the server's programs, the newest version that this machine has; None where it has none."""
    found = shutil.which("initdb")
    if found is not None and Path(found).resolve().with_name("postgres").exists():
        return Path(found).resolve().parent
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[-3]))
    return versions[-1].parent if versions else None


@contextmanager
def cluster() -> Iterator[str]:
    """URL of a running cluster's `postgres` database; skips without a server, and fails instead under CI=true.

    It has a folder of its own outside pytest's, which no other user may enter.
    """
    programs = binaries()
    if programs is None:
        pytest.skip("this machine has no PostgreSQL server")
    user = _unprivileged_user()
    data = Path(tempfile.mkdtemp(prefix="luthier-postgres-"))
    try:
        if user is not None:
            os.chown(data, user.pw_uid, user.pw_gid)
        port = _free_port()
        _start(user, programs, data, port)
        try:
            yield f"postgresql://luthier@127.0.0.1:{port}/postgres"
        finally:
            _run(user, programs / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(data)


def _start(user: pwd.struct_passwd | None, programs: Path, data: Path, port: int) -> None:
    options = f"-h 127.0.0.1 -p {port} -k {data} -c fsync=off -c shared_buffers=16MB"
    try:
        _run(user, programs / "initdb", "-D", data, "-U", "luthier", "-A", "trust", "-E", "UTF8", "--no-sync")
        start = ("-l", data / "log", "-w", "-t", START_TIMEOUT_S, "-o", options, "start")
        _run(user, programs / "pg_ctl", "-D", data, *start)
    except (subprocess.SubprocessError, OSError) as error:
        reason = f"PostgreSQL does not start here: {error}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)


def _run(user: pwd.struct_passwd | None, *command: object) -> None:
    # The output goes to a file: the server inherits it, and a pipe would never end.
    with Path(os.devnull).open("w") as out:
        subprocess.run(
            [str(part) for part in command],
            check=True,
            stdout=out,
            stderr=out,
            stdin=subprocess.DEVNULL,
            timeout=START_TIMEOUT_S,
            cwd="/",
            user=None if user is None else user.pw_uid,
            group=None if user is None else user.pw_gid,
            extra_groups=None if user is None else [],
        )


def _unprivileged_user() -> pwd.struct_passwd | None:
    """Somebody for the server to run as, where this process is root (which the server refuses)."""
    if os.getuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    pytest.skip("there is no unprivileged user to run PostgreSQL as")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
