"""The bars of whole models: what the rows of `benchmarks.models` amount to, and where they fall short.

A ratio is the time of the fastest peer whose answer is right over ours; a model that we refuse is 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.bars import Bar

Row = Mapping[str, Any]

REQUIRED: Mapping[str, tuple[float, float]] = {
    "vgg16conv_126x224": (1.8, 1.8),
    "light_vgg19": (1.5, 1.5),
    "resnet18": (1.35, 1.35),
    "light_shufflenet": (1.2, 1.2),
    "resnet50": (1.15, 1.15),
    "light_resnet50": (1.15, 1.15),
    "light_squeezenet": (1.15, 1.15),
    "light_inception_v1": (1.15, 1.15),
    "light_inception_v2": (1.15, 1.15),
    "mobilenetv2": (1.12, 1.12),
    "light_bvlc_alexnet": (1.1, 1.1),
    "light_zfnet512": (1.1, 1.1),
    "light_densenet121": (1.08, 1.08),
    "mlp": (1.0, 1.2),
}
"""Least ratio of the tuned model on one and on two threads, by name of the file."""

_SCALING = ("resnet50", "vgg16conv_126x224")
_MEAN, _LEAST, _UNTUNED_MEAN, _GAIN = 1.25, 0.98, 0.85, 1.8


def model_bars(rows: Sequence[Row]) -> list[Bar]:
    """All bars; the means and the least are over the networks that have a bar of their own."""
    known = {(row["model"], row["threads"]): row for row in rows if row["model"] in REQUIRED}
    tuned, untuned = _figures(known, "tuned", "value"), _figures(known, "untuned", "value")
    least, gains = _figures(known, "tuned", "low"), _figures(known, "gain", "value")
    gains = {name: value for name, value in gains.items() if name.split(",")[0] in _SCALING}
    return [
        *(_one(name, threads, known) for name in REQUIRED for threads in (1, 2)),
        _summary("tuned: geometric mean", _mean(tuned.values()), tuned, _MEAN),
        _summary("tuned: least lower bound", min(least.values(), default=None), least, _LEAST),
        _summary("untuned: geometric mean", _mean(untuned.values()), untuned, _UNTUNED_MEAN),
        _summary("two threads over one: least", min(gains.values(), default=None), gains, _GAIN),
    ]


def geometric_mean(rows: Sequence[Row], kind: str) -> float | None:
    """Of the ratios of all rows that have one; `kind`: "tuned" or "untuned"."""
    return _mean([row[kind]["value"] for row in rows if row.get(kind) is not None])


def _one(name: str, threads: int, rows: Mapping[tuple[str, int], Row]) -> Bar:
    row = rows.get((name, threads))
    value = None if row is None else _figure(row, "tuned", "value")
    return Bar(_label(name, threads), value, REQUIRED[name][threads - 1], ())


def _label(name: str, threads: int) -> str:
    return f"{name}, {threads} thread{'s' if threads > 1 else ''}"


def _figures(rows: Mapping[tuple[str, int], Row], kind: str, figure: str) -> dict[str, float]:
    found = {_label(*key): _figure(row, kind, figure) for key, row in rows.items()}
    return {name: value for name, value in found.items() if value is not None}


def _figure(row: Row, kind: str, figure: str) -> float | None:
    if "refused" in row:
        return 0.0
    return None if row[kind] is None else float(row[kind][figure])


def _mean(values: Any) -> float | None:
    values = list(values)
    if not values:
        return None
    return 0.0 if min(values) <= 0 else math.exp(sum(map(math.log, values)) / len(values))


def _summary(title: str, value: float | None, parts: Mapping[str, float], required: float) -> Bar:
    short = sorted((part, name) for name, part in parts.items() if part < required)
    return Bar(title, value, required, tuple(f"{name} {part:.2f}" for part, name in short))
