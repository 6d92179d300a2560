"""Pools: candidates of one Task from one uniform sampler, with their times. JSON lines, so that a pool can grow.

line 1   {"network", "rules", "epoch", "task"}
others   [assignment, median_s, least_s] or [assignment, kind of failure]
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compiler.errors import InputError
from compiler.space.rules import VERSION, build_space
from compiler.space.space import Assignment, SearchSpace
from tuner.record import CODEGEN_EPOCH
from tuner.task import Task
from workers.wire import task_from_json, task_json


@dataclass(frozen=True)
class Row:
    """A candidate; `seconds` is None where it failed, and `failure` says how."""

    assignment: Assignment
    seconds: float | None
    failure: str = ""


@dataclass(frozen=True)
class Pool:
    """All that is known of one Task; rows in the order of the sampler."""

    network: str
    task: Task
    rows: tuple[Row, ...]
    epoch: int = CODEGEN_EPOCH

    @property
    def best_s(self) -> float:
        """The fastest."""
        return min(row.seconds for row in self.rows if row.seconds is not None)


def samples(space: SearchSpace, seed: int = 0) -> Iterator[Assignment]:
    """Distinct uniform legal assignments, the default first; ends when new ones have become rare."""
    rng, seen, repeats = random.Random(seed), {space.default}, 0
    yield space.default
    while repeats < 200:
        assignment = space.sample(rng)
        repeats = repeats + 1 if assignment in seen else 0
        if assignment not in seen:
            seen.add(assignment)
            yield assignment


class PoolFile:
    """A pool on disk that can grow. What was measured with another code generator is refused, never mixed."""

    def __init__(self, path: Path) -> None:
        """Read what was recorded."""
        header, self.rows = _read(path)
        if header["epoch"] != CODEGEN_EPOCH:
            msg = (
                f"{path.name} was recorded with code generator {header['epoch']}, this is {CODEGEN_EPOCH}; begin it "
                "again in another folder"
            )
            raise InputError(msg)
        self.path, self.task = path, task_from_json(header["task"])

    @staticmethod
    def create(folder: Path, network: str, task: Task) -> None:
        """An empty pool, unless there is one."""
        path = folder / f"{network}-{task.workload.digest[:8]}.jsonl"
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            header = {"network": network, "rules": VERSION, "epoch": CODEGEN_EPOCH, "task": task_json(task)}
            path.write_text(json.dumps(header) + "\n")

    def append(self, rows: Sequence[list[Any]]) -> None:
        """Add rows at the end."""
        with self.path.open("a") as file:
            file.write("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows))
        self.rows += rows


def load_pools(folder: Path) -> list[Pool]:
    """Every pool of a folder, by name; raises InputError on one that does not fit this code."""
    pools = []
    for path in sorted(folder.glob("*.jsonl")):
        header, rows = _read(path)
        task = task_from_json(header["task"])
        pools.append(
            Pool(str(header["network"]), task, tuple(_row(row) for row in rows), int(header["epoch"]))
        )
    return pools


def pool_space(pool: Pool) -> SearchSpace:
    """The space that the pool was sampled from."""
    return build_space(pool.task.workload, pool.task.target, pool.task.threads)


def _row(row: list[Any]) -> Row:
    assignment = tuple(int(choice) for choice in row[0])
    # The least of the samples: what disturbs the others is not the candidate's.
    return Row(assignment, None, str(row[1])) if isinstance(row[1], str) else Row(assignment, float(row[2]))


def _read(path: Path) -> tuple[dict[str, Any], list[list[Any]]]:
    with path.open() as file:
        header = json.loads(file.readline())
        rows = [json.loads(line) for line in file if line.endswith("\n")]
    if header["rules"] != VERSION:
        msg = f"{path.name} was recorded under rules {header['rules']}, these are {VERSION}; record it again"
        raise InputError(msg)
    return header, rows
