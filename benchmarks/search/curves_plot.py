"""Best so far against trials, a line per strategy with a band, as an SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

_LEFT, _TOP, _WIDTH, _HEIGHT = 60, 40, 620, 340
_COLOURS = ("#888888", "#1f77b4", "#d62728", "#2ca02c", "#9467bd")
_BAND = (10, 90)


def curves_svg(curves: Mapping[str, NDArray[np.float64]]) -> str:
    """`curves`: shape (n_runs, n_trials) by strategy; lines are means over runs, bands the 10th to 90th percentile."""
    low = min(float(np.percentile(runs, _BAND[0], axis=0).min()) for runs in curves.values())
    trials = max(runs.shape[1] for runs in curves.values())

    def x(trial: float) -> float:
        return _LEFT + _WIDTH * math.log2(trial) / math.log2(max(2, trials))

    def y(value: float) -> float:
        return _TOP + _HEIGHT * (1 - (value - low) / max(1e-9, 1 - low))

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 30}" height="{_TOP + _HEIGHT + 50}" '
        'font-family="sans-serif" font-size="11">',
        f'<text x="{_LEFT}" y="18" font-size="14">share of the best known against trials</text>',
    ]
    parts += [
        f'<text x="{x(2**power):.0f}" y="{_TOP + _HEIGHT + 18}" text-anchor="middle">{2**power}</text>'
        for power in range(int(math.log2(trials)) + 1)
    ]
    parts += [
        f'<line x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{y(tick):.0f}" y2="{y(tick):.0f}" stroke="#ddd"/>'
        f'<text x="{_LEFT - 6}" y="{y(tick):.0f}" text-anchor="end">{tick:.2f}</text>'
        for tick in np.linspace(low, 1, 6)
    ]
    for place, (name, runs) in enumerate(curves.items()):
        colour = _COLOURS[place % len(_COLOURS)]
        bottom, top = np.percentile(runs, _BAND, axis=0)
        at = range(1, runs.shape[1] + 1)
        upper = [f"{x(t):.1f},{y(v):.1f}" for t, v in zip(at, top, strict=True)]
        lower = [f"{x(t):.1f},{y(v):.1f}" for t, v in zip(at, bottom, strict=True)]
        line = " ".join(f"{x(t):.1f},{y(v):.1f}" for t, v in zip(at, runs.mean(axis=0), strict=True))
        parts += [
            f'<polygon points="{" ".join([*upper, *reversed(lower)])}" fill="{colour}" opacity="0.12"/>',
            f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>',
            f'<text x="{_LEFT + _WIDTH - 4}" y="{_TOP + _HEIGHT - 12 - 16 * place}" text-anchor="end" '
            f'fill="{colour}">{name}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])
