"""Three small charts as SVG text. Colours are CSS classes of page.css, so that they follow light and dark mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

WIDTH = 640
_BAR = 10
_PANEL_WIDTH, _PANEL_HEIGHT = 220, 96
_MAX_SHARE = 1.25
"""Top of a convergence panel: times more than a quarter above the untuned one are drawn at the edge."""


def bars(pairs: Sequence[tuple[float | None, float | None]]) -> list[str]:
    """One picture per (before, after), all on one scale; None draws no bar."""
    widest = max((value or 0.0 for pair in pairs for value in pair), default=0.0) or 1.0
    return [_pair(before, after, widest) for before, after in pairs]


def stacked(parts_s: Mapping[str, float]) -> str:
    """One bar split in proportion, in the order given."""
    total = sum(parts_s.values()) or 1.0
    left, parts = 0.0, []
    for number, (name, seconds) in enumerate(parts_s.items()):
        width = WIDTH * seconds / total
        title = f"<title>{escape(name)}: {seconds:.1f} s</title>"
        parts.append(
            f'<rect class="phase{number % 8}" x="{left:.1f}" y="0" width="{max(0.0, width - 1):.1f}" height="24">'
            f"{title}</rect>"
        )
        left += width
    return _svg(WIDTH, 24, "Where the time went", parts)


def convergence(curve: Sequence[tuple[int, float]], trials: int, untuned_us: float) -> str:
    """Best time so far over trials, as a share of the untuned time (the dashed line)."""
    last = max(trials, curve[-1][0], 1)
    path, height = [], None
    for trial, best_us in curve:
        x = _PANEL_WIDTH * trial / last
        y = _PANEL_HEIGHT * (1 - min(best_us / untuned_us, _MAX_SHARE) / _MAX_SHARE)
        path.append(f"M{x:.1f} {y:.1f}" if height is None else f"H{x:.1f}V{y:.1f}")
        height = y
    line = _PANEL_HEIGHT * (1 - 1 / _MAX_SHARE)
    parts = [
        f'<line class="grid" x1="0" x2="{_PANEL_WIDTH}" y1="{_PANEL_HEIGHT}" y2="{_PANEL_HEIGHT}"/>',
        f'<line class="untuned" x1="0" x2="{_PANEL_WIDTH}" y1="{line:.1f}" y2="{line:.1f}"/>',
        f'<path class="curve" d="{"".join(path)}H{_PANEL_WIDTH}"/>',
    ]
    return _svg(_PANEL_WIDTH, _PANEL_HEIGHT + 1, f"Best time over {last} trials", parts)


def _pair(before: float | None, after: float | None, widest: float) -> str:
    parts = [
        f'<rect class="{css}" y="{top}" width="{max(1.0, WIDTH * value / widest):.1f}" height="{_BAR}"/>'
        for value, css, top in ((before, "before", 0), (after, "after", _BAR + 1))
        if value
    ]
    return _svg(WIDTH, 2 * _BAR + 1, "Time before and after, shorter is better", parts, stretched=True)


def _svg(width: int, height: int, title: str, parts: Sequence[str], *, stretched: bool = False) -> str:
    aspect = ' preserveAspectRatio="none"' if stretched else ""
    return (
        f'<svg viewBox="0 0 {width} {height}"{aspect} role="img" aria-label="{escape(title)}" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )
