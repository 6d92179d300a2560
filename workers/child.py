"""The child's main: `python -m workers.child ROLE PARENT`.

Reads frames on its standard input and answers on what was its standard output. Both are moved to private descriptors
first, so that nothing a candidate reads or prints can disturb the protocol. Ends when its input closes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from workers import frames, sandbox
from workers.frames import Frame

_BUILD_NICENESS = 15
"""Beside a process that measures, one that builds gets a thirtieth of a core."""
_AUTOGROUP = Path("/proc/self/autogroup")
"""Where Linux takes a session's processes for one; how nice one of them is, says nothing to other sessions then."""

Reply = Callable[[Frame], None]
Serve = Callable[[Frame, Reply], None]


def main(role: str, parent: int) -> None:
    """Answer requests until the input closes."""
    sandbox.die_with_parent(parent)
    requests, answers = _private_pipes()
    serve = _handler(role)

    def receive(count: int) -> bytes:
        return _read(requests, count)

    def reply(frame: Frame) -> None:
        for piece in frames.encode(frame):
            _write(answers, memoryview(piece))

    reply(Frame({"event": "ready"}))
    while True:
        try:
            request = frames.read(receive)
        except EOFError:
            return
        try:
            serve(request, reply)
        except Exception as error:
            # Its last words: in the sandbox nothing can be written to a file, and standard error is one.
            reply(Frame({"error": f"{type(error).__name__}: {error}"}))
            raise


def _handler(role: str) -> Serve:
    # Each role loads only what it needs: the time to start is paid for every batch.
    if role == "build":
        _give_way()
        from workers.building import serve
    elif role == "measure":
        from workers.timer import serve
    elif role == "compare":
        from workers.comparing import serve
    elif role == "probe_peaks":
        from workers.probing import serve
    else:
        serve = _serve_probe
    return serve


def _give_way() -> None:
    """Take what other processes leave of the cores: what is measured meanwhile must not wait."""
    os.nice(_BUILD_NICENESS)
    with suppress(OSError):  # Systems without autogroups.
        _AUTOGROUP.write_text(str(_BUILD_NICENESS))


def _serve_probe(request: Frame, reply: Reply) -> None:
    reply(Frame(sandbox.enter(request.header["limits"])))


def _private_pipes() -> tuple[int, int]:
    """The protocol's descriptors; 0 reads nothing and 1 goes where 2 goes from now on."""
    requests, answers = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    return requests, answers


def _read(descriptor: int, count: int) -> bytes:
    parts = []
    while count:
        part = os.read(descriptor, min(count, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _write(descriptor: int, rest: memoryview) -> None:
    while rest:
        rest = rest[os.write(descriptor, rest) :]


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
