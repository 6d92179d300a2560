"""Split blocks: an intermediate dimension that is read block by block becomes two.

    t[n] = sum(k) x[k] * w[n, k]                n < 1024
    y[j] = f(t[j], t[j + 256], t[j + 512], t[j + 768])
    →  t[g, j] = sum(k) x[k] * w[g*256 + j, k]  g < 4, j < 256
       y[j] = f(t[0, j], t[1, j], t[2, j], t[3, j])

So the stages share the axis that runs inside a block, and a tile of it needs the same tile of each block.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from compiler.index import Index
from compiler.scalar import Expr, Load, map_indices, rewrite, substitute
from compiler.symbol import Axis, axis
from compiler.workload.blocks import Blocks, find_blocks
from compiler.workload.ir import Operand, Stage, Workload, stage_loads


def split_blocks(workload: Workload) -> Workload:
    """Split until no dimension is left that may be; the same object comes back when there is none."""
    while (found := next(_splits(workload), None)) is not None:
        workload = found.apply(workload)
    return workload


@dataclass(frozen=True, slots=True)
class _Split:
    """Dimension `dim` of `temporary`, which `producer` stores along its axis `old`."""

    producer: Stage
    temporary: str
    dim: int
    old: str
    blocks: Blocks

    def apply(self, workload: Workload) -> Workload:
        return replace(
            workload,
            temporaries=tuple(
                self._reshaped(t) if t.name == self.temporary else t for t in workload.temporaries
            ),
            stages=tuple(
                self._producer() if s is self.producer else self._reader(s) for s in workload.stages
            ),
        )

    @property
    def _number(self) -> str:
        return f"{self.old}/block"

    def _reshaped(self, operand: Operand) -> Operand:
        shape = (Index.of(self.blocks.count), Index.of(self.blocks.size))
        return replace(operand, shape=(*operand.shape[: self.dim], *shape, *operand.shape[self.dim + 1 :]))

    def _producer(self) -> Stage:
        blocks, stage = self.blocks, self.producer
        pair = (axis(self._number, blocks.count), axis(blocks.axis, blocks.size))
        axes: list[Axis] = []
        for a in stage.axes:
            axes += pair if a.name == self.old else (a,)
        value = Index.of(self._number) * blocks.distance + Index.of(blocks.axis) * blocks.step
        ranges = {a.name: a.size for a in (*axes, *stage.reduce_axes)}

        def stored(_: str, indices: tuple[Index, ...]) -> tuple[Index, ...]:
            here = (Index.of(self._number), Index.of(blocks.axis))
            return (*indices[: self.dim], *here, *indices[self.dim + 1 :])

        def body(expr: Expr) -> Expr:
            return map_indices(substitute(expr, {self.old: value}), lambda index: index.simplify(ranges))

        return replace(stage.rewritten(body, stored), axes=tuple(axes))

    def _reader(self, stage: Stage) -> Stage:
        def rule(e: Expr) -> Expr | None:
            if not isinstance(e, Load) or e.buffer != self.temporary:
                return None
            place = Index.of(e.indices[self.dim].const // self.blocks.distance)
            pair = (place, Index.of(self.blocks.axis))
            return Load(e.buffer, (*e.indices[: self.dim], *pair, *e.indices[self.dim + 1 :]))

        return stage.rewritten(lambda body: rewrite(body, rule))


def _splits(workload: Workload) -> Iterator[_Split]:
    for producer in workload.stages:
        temporary = next((t for t in workload.temporaries if t.name == producer.target), None)
        if temporary is None or producer.also:
            continue
        readers = [
            (load, stage)
            for stage in workload.stages
            for load in stage_loads(stage)
            if load.buffer == temporary.name
        ]
        for dim, stored in enumerate(producer.target_indices):
            found = {
                find_blocks([load.indices[dim]], temporary.sizes[dim], stage.ranges)
                for load, stage in readers
            }
            blocks = found.pop() if len(found) == 1 else None
            own = {a.name for a in producer.axes}
            if stored.name in own and blocks is not None and blocks.axis not in own:
                yield _Split(producer, temporary.name, dim, str(stored.name), blocks)
