"""A trained model as a file: a line of JSON that says what the trees were trained for, then the trees.

A model belongs to the features that it reads and to the rules whose spaces its samples came from. Under any other it is
refused: its ranking would be of something else. A newer code generator only makes it a little worse, and what it ranks
is measured. The trees are in XGBoost's own form, which runs no code when it is read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xgboost as xgb

from compiler.errors import InputError
from compiler.space.rules import VERSION
from compiler.target import Target
from tuner.cost_model.features import FEATURE_NAMES
from tuner.cost_model.gates import Gates
from tuner.record import CODEGEN_EPOCH

SHIPPED = Path(__file__).with_name("pretrained.model")
"""What a search begins with, where it is there: `python -m benchmarks.search train` makes it."""


@dataclass(frozen=True)
class StoredModel:
    """Trees and their papers.

    Attributes:
        number: one more with each promotion.
        machines: float32 lanes and registers of the Targets that its samples came from.
        gates: the held-out figures of the training run, by field.
    """

    booster: xgb.Booster
    number: int
    machines: frozenset[tuple[int, int]]
    gates: dict[str, Any]

    def knows(self, target: Target) -> bool:
        """Whether it has seen samples of such a Target."""
        return machine_of(target) in self.machines


def machine_of(target: Target) -> tuple[int, int]:
    """What of a Target decides which tiles are good: float32 lanes and vector registers."""
    return target.lanes(4), target.vector_registers


def promoted(new: Gates, kept: StoredModel | None) -> str:
    """Why a newly trained model may not take the place of the kept one; "" where it may.

    It has to choose better than the analytic default, and to be no worse than the kept one in any figure beyond what
    its interval allows.
    """
    if new.peak_at_1.value <= new.usual.value:
        return f"its first choice reaches {new.peak_at_1}, the default {new.usual}: it would be of no use"
    if kept is not None:
        for name in ("pairwise_accuracy", "peak_at_1", "peak_at_5"):
            before, now = float(kept.gates[name]["value"]), getattr(new, name)
            if now.high < before:
                return f"{name} is {now}, that of the model in use {before:.3f}"
    return ""


def save_model(
    path: Path, booster: xgb.Booster, gates: Gates, number: int, targets: Iterable[Target]
) -> None:
    """Write the file; the one that was there is replaced as a whole."""
    trees = bytes(booster.save_raw("ubj"))
    papers = {
        **_belongs_to(),
        "number": number,
        "codegen_epoch": CODEGEN_EPOCH,
        "machines": sorted({machine_of(target) for target in targets}),
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
    return StoredModel(
        xgb.Booster(model_file=bytearray(trees)),
        int(papers["number"]),
        frozenset((int(lanes), int(registers)) for lanes, registers in papers["machines"]),
        dict(papers["gates"]),
    )


def _digest(trees: bytes) -> str:
    return hashlib.sha256(trees).hexdigest()


def _belongs_to() -> dict[str, Any]:
    names = hashlib.sha256("\n".join(FEATURE_NAMES).encode()).hexdigest()[:16]
    return {"features": names, "rules": VERSION}
