"""A trained model as a file: a line of JSON that says what the trees were trained for, then the trees.

A model belongs to the features that it reads and to the rules whose spaces its samples came from. Under any other it is
refused: its ranking would be of something else. A newer code generator only makes it a little worse, and what it ranks
is measured. The trees are in XGBoost's own form, which runs no code when it is read.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xgboost as xgb

from compiler.errors import InputError
from compiler.schedule.schedule import Schedule
from compiler.schedule.steps import Algorithm
from compiler.space.rules import VERSION
from compiler.target import Target
from tuner.cost_model.gates import BARS, Gates, differences, figure_of
from tuner.cost_model.relative import NAMES
from tuner.record import CODEGEN_EPOCH

PAPERS = 7
"""Version of the line of JSON, and of what the names of features mean."""

Machine = tuple[int, int, int]
"""Float32 lanes, vector registers, and multiply-adds of whole vectors that start in a cycle."""

SAFETY = 1.5
"""A Task's error budget over an algorithm's largest error among the samples."""

ErrorKey = tuple[str, tuple[int, ...]]
"""An algorithm and its parameters."""


@dataclass(frozen=True)
class Seen:
    """What the samples came from: a model is believed about nothing else.

    Attributes:
        machines: of the Targets, as `machine_of` says.
        threads: sizes of the teams.
        knobs: names of all knobs.
        errors: largest error of an output under each algorithm, relative to the largest output; without those that were
            beyond a Task's budget.
        lines: how long each Task's pool was, by the Task's key: pools only grow, so what the trees were taught can be
            taught again.
    """

    machines: frozenset[Machine]
    threads: frozenset[int]
    knobs: frozenset[str]
    errors: Mapping[ErrorKey, float]
    lines: Mapping[str, int]

    def is_accurate(self, schedule: Schedule, error_budget: float) -> bool:
        """Whether the algorithms of a Schedule are known to keep to a Task's budget."""
        algorithms = [(s.name, s.parameters) for s in schedule.steps if isinstance(s, Algorithm)]
        return all(self.errors.get(key, math.inf) * SAFETY <= error_budget for key in algorithms)


@dataclass(frozen=True)
class StoredModel:
    """Trees and their papers.

    Attributes:
        number: one more with each promotion.
        seen: what its samples came from.
        gates: the held-out figures of the training run, by field.
    """

    booster: xgb.Booster
    number: int
    seen: Seen
    gates: dict[str, Any]

    def knows(self, target: Target) -> bool:
        """Whether it has seen samples of such a Target."""
        return machine_of(target) in self.seen.machines


def machine_of(target: Target) -> Machine:
    """What of a Target decides which tiles are good."""
    return target.lanes(4), target.vector_registers, target.multiply_adds


def promoted(new: Gates, kept: Mapping[str, Mapping[str, float]] | None) -> str:
    """Why a newly trained model may not take the place of the kept one; "" where it may.

    It has to order candidates better than the prediction that it corrects, beyond doubt, for searches begin with it;
    and what it takes without measuring must not be worse than the analytic default, in the mean over Tasks: without a
    margin that is the default. Beside a kept one, some figure has to be better beyond doubt and none worse, on the
    Tasks that both were judged on.

    `kept`: figures of each Task, judged by the same samples.
    """
    pairs = [(f["pairwise_accuracy"], f["prediction"]) for f in new.by_task.values() if "prediction" in f]
    if figure_of([accuracy - alone for accuracy, alone in pairs]).low <= 0:
        return (
            f"it orders {new.pairwise_accuracy:.3f} of the pairs, the prediction alone {new.prediction:.3f}: it would "
            "be of no use"
        )
    if new.margin is not None and new.instant.value < new.usual.value:
        return f"its choice reaches {new.instant:.3f}, the default {new.usual:.3f}: it would be of no use"
    if kept is None:
        return ""
    found = {name: differences(new, kept, name) for name in BARS}
    known = {name: figure for name, figure in found.items() if figure is not None}
    worse = [f"{name} by {figure:.3f}" for name, figure in known.items() if figure.high < 0]
    if worse:
        return f"it is worse than the model in use: {', '.join(worse)}"
    if all(figure.low <= 0 for figure in known.values()):
        text = ", ".join(
            f"{name} {figure.value:+.3f} ({figure.low:+.3f}..{figure.high:+.3f})"
            for name, figure in known.items()
        )
        return f"it is not better than the model in use beyond doubt: {text}"
    return ""


def save_model(path: Path, booster: xgb.Booster, gates: Gates, number: int, seen: Seen) -> None:
    """Write the file; the one that was there is replaced as a whole."""
    trees = bytes(booster.save_raw("ubj"))
    papers = {
        **_belongs_to(),
        "number": number,
        "codegen_epoch": CODEGEN_EPOCH,
        "machines": sorted(seen.machines),
        "threads": sorted(seen.threads),
        "knobs": sorted(seen.knobs),
        "errors": [[name, list(p), error] for (name, p), error in sorted(seen.errors.items())],
        "lines": dict(seen.lines),
        "gates": gates.json(),
        "sha256": _digest(trees),
    }
    temporary = path.with_name(f"{path.name}.new")
    temporary.write_bytes(json.dumps(papers).encode() + b"\n" + trees)
    temporary.replace(path)


def load_model(path: Path) -> StoredModel:
    """Read a file; raises InputError where it is no model, or one of other features, rules or code."""
    first, _, trees = path.read_bytes().partition(b"\n")
    try:
        papers = json.loads(first)
        whole = papers["sha256"] == _digest(trees)
    except (ValueError, KeyError, TypeError):
        whole = False
    if not whole:  # XGBoost itself crashes on what is no model.
        msg = f"{path.name} is no cost model, or damaged; train one with benchmarks.search"
        raise InputError(msg)
    for name, value in _belongs_to().items():
        if papers.get(name) != value:
            msg = (
                f"the cost model {path.name} was trained for {name} {papers.get(name)}, these are {value}; train it "
                "again with benchmarks.search"
            )
            raise InputError(msg)
    seen = Seen(
        frozenset(
            (int(lanes), int(registers), int(starts)) for lanes, registers, starts in papers["machines"]
        ),
        frozenset(map(int, papers["threads"])),
        frozenset(map(str, papers["knobs"])),
        {(str(name), tuple(map(int, p))): float(error) for name, p, error in papers["errors"]},
        {str(key): int(count) for key, count in papers["lines"].items()},
    )
    booster = xgb.Booster(model_file=bytearray(trees))
    return StoredModel(booster, int(papers["number"]), seen, dict(papers["gates"]))


def _digest(trees: bytes) -> str:
    return hashlib.sha256(trees).hexdigest()


def _belongs_to() -> dict[str, Any]:
    names = hashlib.sha256("\n".join(NAMES).encode()).hexdigest()[:16]
    return {"papers": PAPERS, "features": names, "rules": VERSION}
