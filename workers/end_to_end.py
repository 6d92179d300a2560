"""End to end: whole models against each other, in one sandboxed child."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict
from typing import TypedDict

from compiler.errors import InputError, MeasureError
from tuner.measure import MeasureFailed
from workers.frames import Frame
from workers.local import started
from workers.process import Child
from workers.sandbox import Limits

INSIDE_SHARE = 0.5
"""Kernels are timed inside of their models for this part of the time that the models themselves take."""

_BASE_BYTES = 4 << 30
_COPIES = 4
"""Of each artifact in the child: as received, as loaded, packed constants, and room to work."""


class Compared(TypedDict):
    """Seconds per run in the order they were taken, and the largest difference from the reference.

    The difference is relative to the reference's largest value; infinite where only one of the two is finite.
    `kernels_s`: seconds that a run spends in each kernel, by its symbol; the n-th ones of all models were taken in
    turns. Empty where that was not asked for.
    """

    samples_s: list[float]
    max_relative_error: float
    kernels_s: dict[str, list[float]]


def compare_models(
    artifacts: Mapping[str, bytes],
    *,
    threads: int,
    seed: int,
    seconds: float,
    timeout_s: float,
    reference: bytes | None = None,
    kernels: bool = True,
) -> dict[str, Compared]:
    """Run models in alternation on the same random inputs.

    Args:
        artifacts: `.luthier` artifacts of one model, by name.
        threads: what they were compiled for.
        seed: of the inputs.
        seconds: how long to take samples, all together; at least three rounds are run.
        timeout_s: limit for all of it, loading included.
        reference: artifact whose outputs are right; without it, the first of `artifacts` is.
        kernels: whether kernels are timed inside of the models too, for INSIDE_SHARE of `seconds` more.

    Raises:
        InputError: the artifacts cannot be read or are not alike.
        MeasureError: the child failed or passed its limit.
    """
    blobs = (*artifacts.values(), *(() if reference is None else (reference,)))
    if not artifacts:
        msg = "no artifact to compare; give at least one"
        raise InputError(msg)
    limits = Limits(_BASE_BYTES + _COPIES * sum(map(len, blobs)), threads=threads)
    header = {
        "names": list(artifacts),
        "threads": threads,
        "seed": seed,
        "seconds": seconds,
        "inside_s": INSIDE_SHARE * seconds if kernels else 0.0,
        "limits": asdict(limits),
    }
    with closing(Child("compare", limits.memory_bytes)) as child:
        started(child).send(Frame(header, blobs), timeout_s)
        answer = child.receive(timeout_s)
        if isinstance(answer, Frame):
            answer = child.receive(timeout_s)
    if isinstance(answer, MeasureFailed):
        msg = f"comparing the models failed ({answer.kind}): {answer.message}; try again on an idle machine"
        raise MeasureError(msg)
    if "failed" in answer.header:
        raise InputError(str(answer.header["failed"]))
    samples, errors = answer.header["samples_s"], answer.header["max_relative_error"]
    inside = answer.header["kernels_s"]
    return {
        name: Compared(
            samples_s=[float(s) for s in samples[name]],
            max_relative_error=float(errors[name]),
            kernels_s={str(k): [float(s) for s in times] for k, times in inside[name].items()},
        )
        for name in artifacts
    }
