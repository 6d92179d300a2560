"""In place: a result that may take the memory of an input, because each element is read just before it is stored over.

    y[i] = max(t[i] + x[i], 0)      and nothing else reads x: y may be where x is

A residual that is added for the last time is such an input: its lines are in the first cache when the result is stored
there, and need not be brought nearer a second time. Schedules store each element of a result once, so that it is enough
that whatever reads an element stores over it.
"""

from __future__ import annotations

from compiler.index import Index
from compiler.loop.ir import Buffer, LoopNest, Stmt, Store, walk_statements
from compiler.scalar import loads

Accesses = list[tuple[str, Index, str, Index]]
"""Of each load: its buffer and element, and the buffer and element that its statement stores."""


def in_place(nest: LoopNest) -> dict[str, tuple[str, ...]]:
    """For each output the inputs whose memory it may take, of its size and type; outputs without any are absent."""
    buffers = nest.by_name
    accesses = _accesses(nest.body, buffers)
    read = {buffer for buffer, *_ in accesses}
    found = {
        output.name: tuple(
            b.name
            for b in nest.params
            if b.role == "input" and _are_alike(b, output) and _is_stored_over(b.name, output.name, accesses)
        )
        for output in nest.params
        if output.role == "output" and output.name not in read
    }
    return {name: inputs for name, inputs in found.items() if inputs}


def kept_apart(nest: LoopNest) -> dict[str, str]:
    """What LLVM is told of each pointer: that nothing else leads to its memory, or nothing."""
    replaced = in_place(nest)
    shared = {*replaced, *(name for names in replaced.values() for name in names)}
    return {b.name: "" if b.name in shared else "noalias " for b in nest.params}


def _accesses(body: Stmt, buffers: dict[str, Buffer]) -> Accesses:
    return [
        (load.buffer, buffers[load.buffer].flat(load.indices), stmt.buffer, place)
        for stmt in walk_statements(body)
        if isinstance(stmt, Store)
        for place in (buffers[stmt.buffer].flat(stmt.indices),)
        for load in loads(stmt.value)
    ]


def _is_stored_over(name: str, output: str, accesses: Accesses) -> bool:
    own = [access[1:] for access in accesses if access[0] == name]
    return bool(own) and all(target == output and read == stored for read, target, stored in own)


def _are_alike(one: Buffer, other: Buffer) -> bool:
    sizes = [size for buffer in (one, other) for size in buffer.shape]
    return all(isinstance(size, int) for size in sizes) and (
        (one.dtype, one.elements) == (other.dtype, other.elements)
    )
