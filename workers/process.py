"""A supervised child process: every wait has a limit, and every end has a FailureKind.

The child leads a process group of its own, inherits no descriptor and no environment, and stands in a folder that no
longer exists. The kernel kills it when the thread that started it ends, and it ends by itself when its input closes.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Literal

from tuner.measure import FailureKind, MeasureFailed
from workers import frames
from workers.frames import Frame
from workers.sandbox import Usage, peak_resident_bytes, process_memory

Role = Literal["build", "measure", "compare", "probe", "probe_peaks"]

START_TIMEOUT_S = 60.0
_ROOT = Path(__file__).resolve().parent.parent
_TICK_S = 0.02
_END_S = 5.0
_CHUNK = 1 << 20
_NEARLY_ALL = 0.8
_MOST_SAID = 500
"""Characters of an error that are kept: a bad candidate may have made it."""
_ENVIRONMENT = {
    "PATH": os.defpath,
    "LC_ALL": "C.UTF-8",
    "PYTHONPATH": str(_ROOT),
    "PYTHONHASHSEED": "0",
    # One thread each: a namespace of its own can only be entered by a process with one thread.
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}


class _Ended(Exception):
    """The child has ended, or has to; `kind` where we decided it."""

    def __init__(self, kind: FailureKind | None = None) -> None:
        self.kind = kind


class Child:
    """One child process; for one thread at a time, and the thread that makes it must outlive it.

    A failure ends it for good: after the first MeasureFailed every `receive` returns the same one.
    """

    def __init__(self, role: Role, memory_bytes: int) -> None:
        """Start it without waiting for it; `memory_bytes` is what it may use beyond its own start."""
        self._memory_bytes = memory_bytes
        self._base = Usage(0, 0, 0)
        self._peak_vm = 0
        self._failure: MeasureFailed | None = None
        self._last_words = ""
        # Who pauses is another thread than the one it works for; its number is another process's once it is reaped.
        self._ending = threading.Lock()
        self._paused_at: float | None = None
        self._paused_s = 0.0
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the child)
        self._process = _spawn(role, self._errors)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout
        for pipe in (self._to, self._from):
            os.set_blocking(pipe.fileno(), False)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it has not ended, as far as we know."""
        return self._failure is None and self._process.returncode is None

    def send(self, frame: Frame, timeout_s: float) -> None:
        """Write a frame; a child that ends meanwhile, or does not read, shows in the next `receive`."""
        if self._failure is not None:
            return
        deadline = self._clock_s() + timeout_s
        try:
            for piece in frames.encode(frame):
                self._write(memoryview(piece), deadline)
        except _Ended as end:
            self._fail(end.kind, timeout_s)

    def receive(self, timeout_s: float) -> Frame | MeasureFailed:
        """The next frame of the child, or why there will never be one."""
        if self._failure is not None:
            return self._failure
        deadline = self._clock_s() + timeout_s
        try:
            frame = frames.read(lambda count: self._read(count, deadline))
            if "error" in frame.header:
                self._last_words = " ".join(str(frame.header["error"])[:_MOST_SAID].split())
                frames.read(lambda count: self._read(count, deadline))
                msg = "it spoke on after its last words"
                raise frames.FrameError(msg)
        except _Ended as end:
            return self._fail(end.kind, timeout_s)
        except frames.FrameError as error:
            self._end()
            return self._keep(
                MeasureFailed(FailureKind.CRASH, f"the measuring process broke its protocol: {error}")
            )
        if "usage" in frame.header:
            self._base = Usage(*map(int, frame.header["usage"]))
            self._peak_vm = self._base.vm
        return frame

    def pause(self) -> None:
        """Stop it where it is, from any thread, until `resume`; no limit of its runs on meanwhile."""
        if self._signal(signal.SIGSTOP) and self._paused_at is None:
            self._paused_at = time.monotonic()

    def resume(self) -> None:
        """Let it go on, from any thread."""
        self._signal(signal.SIGCONT)
        if self._paused_at is not None:
            self._paused_s, self._paused_at = self._now_paused_s(), None

    def close(self) -> None:
        """Kill it with all that it started, and free what it held. Safe to call twice."""
        self._end()
        self._keep(MeasureFailed(FailureKind.CRASH, "the process was closed"))

    def _signal(self, number: signal.Signals) -> bool:
        """Send a signal to its group; False where it has been reaped."""
        with self._ending:
            if self._process.returncode is not None:
                return False
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)
            return True

    def _now_paused_s(self) -> float:
        """Seconds for which it has been paused so far."""
        since = self._paused_at
        return self._paused_s + (0.0 if since is None else time.monotonic() - since)

    def _clock_s(self) -> float:
        """Seconds that pass only while it may run."""
        return time.monotonic() - self._now_paused_s()

    def _write(self, rest: memoryview, deadline: float) -> None:
        while rest:
            self._wait(self._to.fileno(), select.POLLOUT, deadline)
            try:
                rest = rest[os.write(self._to.fileno(), rest[:_CHUNK]) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                raise _Ended from None

    def _read(self, count: int, deadline: float) -> bytes:
        parts: list[bytes] = []
        while count:
            self._wait(self._from.fileno(), select.POLLIN, deadline)
            part = os.read(self._from.fileno(), min(count, _CHUNK))
            if not part:
                raise _Ended
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def _wait(self, descriptor: int, event: int, deadline: float) -> None:
        poll = select.poll()
        poll.register(descriptor, event)
        while True:
            left = deadline - self._clock_s()
            if left <= 0:
                raise _Ended(FailureKind.TIMEOUT)
            if poll.poll(1000 * min(left, _TICK_S)):
                return
            self._watch_memory()

    def _watch_memory(self) -> None:
        memory = process_memory(self._process.pid)
        if memory is None:
            return
        self._peak_vm = max(self._peak_vm, memory[0])
        if self._base.vm and memory[1] - self._base.resident > self._memory_bytes:
            raise _Ended(FailureKind.OUT_OF_MEMORY)

    def _fail(self, decided: FailureKind | None, timeout_s: float) -> MeasureFailed:
        peak_resident = self._end()
        used = self._peak_vm - self._base.vm
        # A fresh process inherits the peak of the one that forked it, so only a new peak counts.
        if peak_resident > self._base.peak_resident:
            used = max(used, peak_resident - self._base.resident)
        if self._base.vm and decided is None and used >= _NEARLY_ALL * self._memory_bytes:
            decided = FailureKind.OUT_OF_MEMORY
        code = self._process.returncode
        return self._keep(classify(decided, code, timeout_s, self._memory_bytes, self._last_error()))

    def _keep(self, failure: MeasureFailed) -> MeasureFailed:
        if self._failure is None:
            self._failure = failure
        for file in (self._to, self._from, self._errors):
            file.close()
        return self._failure

    def _end(self) -> int:
        """Kill the process group and reap its leader; the peak of its resident bytes, 0 if reaped before."""
        with self._ending:
            return self._reaped()

    def _reaped(self) -> int:
        if self._process.returncode is not None:
            return 0
        # Before reaping: the group's number stays ours while the leader is not reaped.
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            self._process.kill()
        limit = time.monotonic() + _END_S
        while time.monotonic() < limit:
            try:
                pid, status, rusage = os.wait4(self._process.pid, os.WNOHANG)
            except ChildProcessError:  # The host process ignores SIGCHLD, so the kernel reaped it.
                self._process.returncode = 0
                return 0
            if pid:
                self._process.returncode = os.waitstatus_to_exitcode(status)
                return peak_resident_bytes(rusage)
            time.sleep(0.001)
        return 0

    def _last_error(self) -> str:
        if self._last_words or self._errors.closed:
            return self._last_words
        self._errors.seek(0)
        lines = self._errors.read(_CHUNK).decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""


def classify(
    decided: FailureKind | None,
    exit_code: int | None,
    timeout_s: float,
    memory_bytes: int,
    last_error: str = "",
) -> MeasureFailed:
    """Why a child ended. `decided`: what we killed it for; `exit_code`: negative for a signal, as in subprocess."""
    if decided is FailureKind.TIMEOUT or (decided is None and exit_code == -signal.SIGXCPU):
        return MeasureFailed(FailureKind.TIMEOUT, f"did not end within {timeout_s:g} s")
    if decided is FailureKind.OUT_OF_MEMORY:
        return MeasureFailed(decided, f"passed the memory limit of {memory_bytes >> 20} MiB")
    match -(exit_code or 0):
        case signal.SIGSEGV | signal.SIGBUS:
            return MeasureFailed(
                FailureKind.MEMORY_FAULT, "read outside its buffers, or wrote where it must not"
            )
        case signal.SIGFPE:
            return MeasureFailed(FailureKind.ARITHMETIC_FAULT, "divided an integer by zero, or the like")
        case signal.SIGILL:
            return MeasureFailed(FailureKind.CRASH, "met an instruction that this processor does not have")
        case code if code > 0:
            return MeasureFailed(FailureKind.CRASH, f"was ended by signal {code}")
    why = f": {last_error}" if last_error else ""
    return MeasureFailed(FailureKind.CRASH, f"the process ended with code {exit_code}{why}")


def _spawn(role: Role, errors: IO[bytes]) -> subprocess.Popen[bytes]:
    command: Sequence[str] = (sys.executable, "-P", "-m", "workers.child", role, str(os.getpid()))
    folder = tempfile.mkdtemp(prefix="luthier-")
    try:
        return subprocess.Popen(
            command,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=folder,
            env=_ENVIRONMENT,
            close_fds=True,
            start_new_session=True,
        )
    finally:
        # The child keeps standing in it, nothing can be made in it, and nobody has to remember to remove it.
        Path(folder).rmdir()
