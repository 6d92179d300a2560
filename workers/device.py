"""Device: the machine that candidates are measured *on*, as records and `luthier doctor` describe it."""

from __future__ import annotations

import os
import platform
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from compiler.errors import MeasureError
from compiler.target import usable_cores
from tuner.measure import MeasureFailed
from workers.frames import Frame
from workers.local import started
from workers.process import START_TIMEOUT_S, Child
from workers.sandbox import Limits

_PROBE_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Device:
    """A machine.

    Attributes:
        name: how Trials name it.
        cpu: model of the processor.
        machine: its architecture, such as "x86_64".
        cores: how many this process may use (its CPU affinity).
        memory_bytes: physical memory, 0 where the system does not tell.
        system: kernel and its release.
        sandbox: what a measuring child gives up here, such as "rlimits+no_new_privs+netns".
    """

    name: str
    cpu: str
    machine: str
    cores: int
    memory_bytes: int
    system: str
    sandbox: str


def describe_device(name: str = "local") -> Device:
    """This machine; starts a child to see which sandbox it allows. Raises MeasureError if none can be started."""
    return Device(
        name=name,
        cpu=_cpu_model(),
        machine=platform.machine(),
        cores=usable_cores(),
        memory_bytes=_memory_bytes(),
        system=f"{platform.system()} {platform.release()}",
        sandbox=_sandbox_tier(),
    )


def device_json(device: Device) -> dict[str, Any]:
    """JSON form, every field."""
    return asdict(device)


def _sandbox_tier() -> str:
    with closing(Child("probe", _PROBE_BYTES)) as child:
        started(child).send(Frame({"limits": asdict(Limits(_PROBE_BYTES))}), START_TIMEOUT_S)
        answer = child.receive(START_TIMEOUT_S)
    if isinstance(answer, MeasureFailed):
        msg = f"no sandbox can be entered here: {answer.message}; see `luthier doctor`"
        raise MeasureError(msg)
    return str(answer.header["sandbox"])


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def _memory_bytes() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0
