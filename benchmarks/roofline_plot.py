"""A bar per shape: the default's and the tuned kernel's share of the measured peak, as a self-contained SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

_ROW, _LEFT, _WIDTH, _TOP = 22, 220, 520, 40


def roofline_svg(rows: Sequence[Mapping[str, Any]]) -> str:
    """The plot; the vertical line is the multiply-add peak of the same run."""
    shares = [row["peak_share"] or 0.0 for row in rows]
    scale = _WIDTH / max(1.1, *shares)
    height = _TOP + _ROW * len(rows) + 20
    peak_x = _LEFT + scale
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 80}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        f'<text x="{_LEFT}" y="18">share of the multiply-add peak: default (light), tuned (dark)</text>',
        f'<line x1="{peak_x:.1f}" x2="{peak_x:.1f}" y1="28" y2="{height - 14}" stroke="#b33" stroke-dasharray="4 3"/>',
    ]
    for place, (row, share) in enumerate(zip(rows, shares, strict=True)):
        y = _TOP + _ROW * place
        default = (
            share * row["tuned_us"] / row["default_us"] if row["default_us"] and row["tuned_us"] else 0.0
        )
        parts += [
            f'<text x="{_LEFT - 8}" y="{y + 12}" text-anchor="end">{escape(str(row["shape"]))}</text>',
            f'<rect x="{_LEFT}" y="{y}" width="{default * scale:.1f}" height="7" fill="#b8ae9e"/>',
            f'<rect x="{_LEFT}" y="{y + 8}" width="{share * scale:.1f}" height="7" fill="#1f7a6b"/>',
            f'<text x="{_LEFT + share * scale + 6:.1f}" y="{y + 14}">{share:.2f}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])
