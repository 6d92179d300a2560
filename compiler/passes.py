"""Passes: rewrites that keep the kind of IR. Every pass receives valid IR and leaves valid IR."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from compiler import debug
from compiler.errors import CompileError

IR = TypeVar("IR")


class Pass(Protocol[IR]):
    """A named rewrite of one IR. Stateless, so it may be shared between threads."""

    @property
    def name(self) -> str:
        """Short name, unique in its pipeline: for dumps, timings and errors."""
        ...

    def run(self, ir: IR) -> IR:
        """The rewritten IR; the same object where there was nothing to do."""
        ...


def run_passes(
    ir: IR, passes: Sequence[Pass[IR]], verify: Callable[[IR], None], print_ir: Callable[[IR], str]
) -> IR:
    """Run the passes in order, with the verifier before the first one and after each one that changed something.

    Raises:
        CompileError: the verifier refused; the message names the pass after which it did.
    """
    verify(ir)
    for step in passes:
        start = time.perf_counter()
        changed = step.run(ir)
        if debug.enabled("time"):
            debug.show(f"pass {step.name}", f"{time.perf_counter() - start:.4f} s")
        if changed is ir:
            continue
        ir = changed
        if debug.enabled("print"):
            debug.show(f"after {step.name}", print_ir(ir))
        _verify_after(step.name, ir, verify)
    return ir


def _verify_after(name: str, ir: IR, verify: Callable[[IR], None]) -> None:
    try:
        verify(ir)
    except CompileError as error:
        msg = f"after pass {name}: {error}"
        raise CompileError(msg) from error
