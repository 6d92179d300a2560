"""In place: a result that may take the memory of an input, because each element is read just before it is stored over.

    y[i] = max(t[i] + x[i], 0)      and nothing else reads x: y may be where x is

A residual that is added for the last time is such an input: its lines are in the first cache when the result is stored
there, and need not be brought nearer a second time. Schedules store each element of a result once, so that it is enough
that whatever reads an element stores over it.
"""

from __future__ import annotations

from compiler.loop.ir import Buffer, LoopNest, Store, walk_statements
from compiler.scalar import loads


def in_place(nest: LoopNest) -> dict[str, tuple[str, ...]]:
    """For each output the inputs whose memory it may take, of its size and type; outputs without any are absent."""
    outputs = [b for b in nest.params if b.role == "output"]
    inputs = {
        o.name: [b.name for b in nest.params if b.role == "input" and _are_alike(b, o)] for o in outputs
    }
    if not any(inputs.values()):
        return {}
    stores = [stmt for stmt in walk_statements(nest.body) if isinstance(stmt, Store)]
    reads = [(load, stmt) for stmt in stores for load in loads(stmt.value)]
    read, buffers = {load.buffer for load, _ in reads}, nest.by_name

    def is_stored_over(name: str, output: str) -> bool:
        own = [(load, stmt) for load, stmt in reads if load.buffer == name]
        return bool(own) and all(
            stmt.buffer == output and buffers[name].flat(load.indices) == buffers[output].flat(stmt.indices)
            for load, stmt in own
        )

    found = {
        output: tuple(name for name in names if is_stored_over(name, output))
        for output, names in inputs.items()
        if output not in read
    }
    return {output: names for output, names in found.items() if names}


def shared(nest: LoopNest) -> frozenset[str]:
    """Parameters that another one may share its memory with."""
    return frozenset(name for output, names in in_place(nest).items() for name in (output, *names))


def _are_alike(one: Buffer, other: Buffer) -> bool:
    sizes = [size for buffer in (one, other) for size in buffer.shape]
    known = all(isinstance(size, int) for size in sizes)
    return known and (one.dtype, one.elements) == (other.dtype, other.elements)
