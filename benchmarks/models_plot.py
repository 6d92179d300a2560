"""Whole models: a bar per model and number of threads, best peer over ours with its interval, as an SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

from benchmarks.model_bars import REQUIRED

_LEFT, _TOP, _WIDTH, _ROW = 220, 46, 640, 22
_MARGIN = 1.1
_TICKS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0)


def models_svg(rows: Sequence[Mapping[str, Any]]) -> str:
    """The plot, a logarithmic axis: full is tuned with its 95 % interval, hollow untuned, the red tick its bar.

    Refused models and those without a peer are left out.
    """
    shown = [row for row in rows if row.get("tuned") is not None]
    if not shown:
        return '<svg xmlns="http://www.w3.org/2000/svg" width="10" height="10"></svg>\n'
    axis = _Axis(shown)
    height = _TOP + _ROW * len(shown)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 30}" height="{height + 30}" '
        'font-family="sans-serif" font-size="11">',
        f'<text x="{_LEFT}" y="16" font-size="14">best peer over ours: full tuned, hollow untuned, '
        "red tick required</text>",
        *(_tick(axis.x(tick), tick, height) for tick in _TICKS if axis.low <= tick <= axis.high),
        *(line for place, row in enumerate(shown) for line in _row(axis, place, row)),
    ]
    return "\n".join([*parts, "</svg>", ""])


class _Axis:
    """Places of ratios."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        values = [row[kind][end] for row in rows for kind in ("tuned", "untuned") for end in ("low", "high")]
        values += [1.0, *(r for row in rows if (r := _required(row)) is not None)]
        self.low, self.high = min(values) / _MARGIN, max(values) * _MARGIN

    def x(self, value: float) -> float:
        return _LEFT + _WIDTH * math.log(value / self.low) / math.log(self.high / self.low)


def _tick(x: float, tick: float, height: int) -> str:
    colour = "#444" if tick == 1 else "#ddd"
    return (
        f'<line x1="{x:.1f}" y1="{_TOP - 6}" x2="{x:.1f}" y2="{height}" stroke="{colour}"/>'
        f'<text x="{x:.1f}" y="{_TOP - 10}" text-anchor="middle" fill="#666">{tick:g}</text>'
    )


def _row(axis: _Axis, place: int, row: Mapping[str, Any]) -> list[str]:
    y = _TOP + _ROW * place + _ROW / 2
    name = f"{row['model']}, {row['threads']}t"
    tuned, untuned = row["tuned"], row["untuned"]
    x, low, high = (axis.x(tuned[key]) for key in ("value", "low", "high"))
    lines = [
        f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{escape(name)}</text>',
        f'<line x1="{low:.1f}" y1="{y:.1f}" x2="{high:.1f}" y2="{y:.1f}" stroke="#1f7a6b" stroke-width="2"/>',
        f'<circle cx="{axis.x(untuned["value"]):.1f}" cy="{y:.1f}" r="3.5" fill="none" stroke="#1f7a6b"/>',
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="#1f7a6b"><title>{tuned["value"]:.2f} over '
        f"{escape(str(row['best_peer']))}</title></circle>",
    ]
    required = _required(row)
    if required is not None:
        place_x = axis.x(required)
        lines.append(
            f'<line x1="{place_x:.1f}" y1="{y - 7:.1f}" x2="{place_x:.1f}" y2="{y + 7:.1f}" stroke="#b00020"/>'
        )
    return lines


def _required(row: Mapping[str, Any]) -> float | None:
    bars = REQUIRED.get(row["model"], ())
    return bars[row["threads"] - 1] if row["threads"] <= len(bars) else None
