"""Roofline: a point per shape under the machine's ceilings, both axes logarithmic, as a self-contained SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any
from xml.sax.saxutils import escape

from luthier.bench.ceilings import LEVELS

_LEFT, _TOP, _WIDTH, _HEIGHT = 70, 40, 900, 560
_COLOURS = {
    "contraction": "#1f7a6b",
    "ragged": "#b3541e",
    "winograd": "#6b3fa0",
    "memory": "#2563a8",
    "int8": "#777",
    "other": "#a0a0a0",
}
_MARGIN = 2.0


def roofline_svg(rows: Sequence[Mapping[str, Any]]) -> str:
    """The plot: operations a byte against GFLOP/s of the tuned kernels, the default as a hollow point below.

    The ceilings are medians over the rows of the smallest number of threads; other rows, refused ones and those
    without arithmetic are left out.
    """
    fewest = min((row["threads"] for row in rows), default=1)
    shown = [r for r in rows if "refused" not in r and r["threads"] == fewest and r["operations"]]
    if not shown:
        return '<svg xmlns="http://www.w3.org/2000/svg" width="10" height="10"></svg>\n'
    roofs = {name: median(r["ceilings"][name] for r in shown) for name in ("multiply_add", *LEVELS)}
    plot = _Plot(shown, roofs["multiply_add"] / 1e9)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 30}" height="{_TOP + _HEIGHT + 60}" '
        'font-family="sans-serif" font-size="11">',
        f'<text x="{_LEFT}" y="20" font-size="14">GFLOP/s over operations a byte, {fewest} thread(s); '
        "hollow: default, full: tuned</text>",
        *_roofs(plot, roofs),
        *(line for row in shown for line in _points(plot, row)),
        *(
            f'<text x="{_LEFT + 120 * i}" y="{_TOP + _HEIGHT + 45}" fill="{colour}">● {group}</text>'
            for i, (group, colour) in enumerate(_COLOURS.items())
        ),
    ]
    return "\n".join([*parts, "</svg>", ""])


class _Plot:
    """Places of values."""

    def __init__(self, rows: Sequence[Mapping[str, Any]], peak: float) -> None:
        x = [_intensity(row) for row in rows]
        y = [_gflops(row, kind) for row in rows for kind in ("default", "tuned")]
        self.x0, self.x1 = min(x) / _MARGIN, max(x) * _MARGIN
        self.y0, self.y1 = min(y) / _MARGIN, max(*y, peak) * _MARGIN

    def x(self, value: float) -> float:
        return _LEFT + _WIDTH * math.log(value / self.x0) / math.log(self.x1 / self.x0)

    def y(self, value: float) -> float:
        return _TOP + _HEIGHT * (1 - math.log(value / self.y0) / math.log(self.y1 / self.y0))


def _roofs(plot: _Plot, roofs: Mapping[str, float]) -> list[str]:
    peak, lines = roofs["multiply_add"] / 1e9, []
    for name in LEVELS:
        rate = roofs[name] / 1e9
        start, end = max(plot.x0, plot.y0 / rate), min(plot.x1, peak / rate)
        if start < end:
            lines.append(_line(plot, (start, start * rate), (end, end * rate), f"{name} {rate:.0f} GB/s"))
    lines.append(_line(plot, (plot.x0, peak), (plot.x1, peak), f"multiply-add {peak:.0f} GFLOP/s"))
    return lines


def _line(plot: _Plot, start: tuple[float, float], end: tuple[float, float], text: str) -> str:
    (x0, y0), (x1, y1) = ((plot.x(x), plot.y(y)) for x, y in (start, end))
    return (
        f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" stroke="#999"/>'
        f'<text x="{x0 + 4:.1f}" y="{y0 - 4:.1f}" fill="#666">{escape(text)}</text>'
    )


def _points(plot: _Plot, row: Mapping[str, Any]) -> list[str]:
    colour, x = _COLOURS[row["group"]], plot.x(_intensity(row))
    low, high = (plot.y(_gflops(row, kind)) for kind in ("default", "tuned"))
    return [
        f'<circle cx="{x:.1f}" cy="{low:.1f}" r="3" fill="none" stroke="{colour}"/>',
        f'<circle cx="{x:.1f}" cy="{high:.1f}" r="3.5" fill="{colour}"><title>{escape(row["shape"])}</title></circle>',
        f'<text x="{x + 5:.1f}" y="{high + 3:.1f}" font-size="8" fill="{colour}">{escape(row["shape"])}</text>',
    ]


def _intensity(row: Mapping[str, Any]) -> float:
    return float(row["operations"]) / float(row["bytes"])


def _gflops(row: Mapping[str, Any], kind: str) -> float:
    return float(row["operations"]) / float(row["kernel"][kind]["median_us"]) * 1e-3
