"""The bars: what the rows of `benchmarks.kernels` amount to, and where they fall short.

Our kernels alone (input unpadded, in their own layout, bias and ReLU included) stand against the machine's ceilings;
the whole single-operator model (channels first, as a user runs it) stands against the same model in a peer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from types import MappingProxyType
from typing import Any

Row = Mapping[str, Any]
Reduce = Callable[[Sequence[float]], float]

_POSSIBLE = 1.05
WRONG = 1e-2
"""Error, relative to the largest output, above which an answer is no answer; one unit of a byte is less."""

CONTRACTION, RAGGED = (0.95, 0.88), (0.85, 0.70)
"""Median and worst shares of the peak, and of the bound."""
WINOGRAD, MEMORY, PEERS, GAIN = 1.8, 0.70, 1.0, 1.8
"""The worst rate over the peak, share of the bound, a peer's time over ours, and one thread's time over two's."""

ALONE = "alone"
"""The kernels on one thread, as they were tuned for one: in the turns of those on several."""
LONG_US = 1000.0
"""A shape that takes longer on one thread should scale to two."""


@dataclass(frozen=True)
class Bar:
    """A figure that must reach a value.

    Attributes:
        value: None where no row has the figure.
        short: shapes below the bar (above it, where `at_most`), the worst first, and those that were refused.
        reduced: whether the value summarises all shapes, so that single ones may lie below.
    """

    title: str
    value: float | None
    required: float
    short: tuple[str, ...]
    at_most: bool = False
    unit: str = ""

    @property
    def met(self) -> bool | None:
        """Whether it is reached; None where it was not measured."""
        if self.value is None:
            return None
        return self.value <= self.required if self.at_most else self.value >= self.required

    def line(self) -> str:
        """One line for people."""
        state = {True: "met", False: "MISSED", None: "not measured"}[self.met]
        sign = "<=" if self.at_most else ">="
        value = "-" if self.value is None else f"{self.value:.2f}{self.unit}"
        names = f"   short: {', '.join(self.short)}" if self.met is False and self.short else ""
        return f"{self.title:<64} {value:>9}  {sign} {self.required:g}{self.unit:<4} {state}{names}"


def bars(rows: Sequence[Row], builds: Mapping[str, Any] | None) -> list[Bar]:
    """All bars over the rows of one run; `builds` as `build_time.build_times` gives it."""
    first = [row for row in rows if row["threads"] == 1] or list(rows)
    two = [row for row in rows if row["threads"] == 2 and "refused" not in row]
    timed = [row for row in first if "refused" not in row]
    contraction, ragged = _group(first, "contraction"), _group(first, "ragged")
    memory = _group(first, "memory")
    winograd, int8 = _group(first, "winograd"), _group(first, "int8")
    return [
        _bar(
            "contraction: median share of the multiply-add peak (kernel)",
            contraction,
            peak_share,
            median,
            CONTRACTION[0],
        ),
        _bar(
            "contraction: worst share of the multiply-add peak (kernel)",
            contraction,
            peak_share,
            min,
            CONTRACTION[1],
        ),
        _bar("ragged: median share of the bound (kernel)", ragged, bound_share, median, RAGGED[0]),
        _bar("ragged: worst share of the bound (kernel)", ragged, bound_share, min, RAGGED[1]),
        _bar(
            "winograd: worst rate of direct operations over the peak (kernel)",
            winograd,
            peak_share,
            min,
            WINOGRAD,
        ),
        _bar("memory: worst of best peer over ours (whole model)", memory, peer_ratio, min, PEERS),
        _bar("memory: worst share of the bound (kernel)", memory, bound_share, min, MEMORY),
        _bar("int8: worst of best peer over ours (whole model)", int8, peer_ratio, min, PEERS),
        _bar("default: median of tuned over default time (kernel)", timed, default_share, median, 0.75),
        _gain_bar(timed, two),
        _build_bar(builds),
    ]


def is_short(row: Row) -> bool:
    """Whether the shape is below what its group must reach in the median, or at worst where that is all.

    On several threads only what they gain counts.
    """
    least = _LEAST.get(row["group"], ()) if row["threads"] == 1 else ((gain, GAIN),)
    figures = [(figure(row), required) for figure, required in least]
    return any(value is not None and value < required for value, required in figures)


def peak_share(row: Row) -> float | None:
    """Operations of the definition over time and peak; padded taps do not count."""
    seconds = _kernel_s(row)
    return None if seconds is None else 2 * row["multiply_adds"] / seconds / row["ceilings"]["multiply_add"]


def bound_share(row: Row) -> float | None:
    """The bound over the time of the tuned kernels."""
    seconds = _kernel_s(row)
    return None if seconds is None else row["bound_us"] * 1e-6 / seconds


def above_bound(row: Row) -> bool:
    """Whether it took less time than it can: other work slowed the probes (or the count is wrong)."""
    share = bound_share(row)
    return share is not None and not row["algorithms"] and share > _POSSIBLE


def default_share(row: Row) -> float | None:
    """Tuned over default time of the kernels."""
    seconds = _kernel_s(row)
    return None if seconds is None else seconds / (row["kernel"]["default"]["median_us"] * 1e-6)


def best_peer(row: Row) -> tuple[str, float] | None:
    """The fastest peer whose answer is right and its microseconds; None where there is none."""
    if "refused" in row:
        return None
    own = {"default", "tuned", *wrong_peers(row)}
    peers = {k: v["median_us"] for k, v in row["model"].items() if k not in own}
    if not peers:
        return None
    name = min(peers, key=lambda k: peers[k])
    return name, peers[name]


def wrong_peers(row: Row) -> dict[str, float]:
    """Errors of the peers that compute something else: saturated sums of bytes are faster than right ones."""
    return {k: e for k, e in row["errors"].items() if k != "luthier" and not e <= WRONG}


def peer_ratio(row: Row) -> float | None:
    """The best peer's time over ours, whole models."""
    best = best_peer(row)
    return None if best is None else best[1] / float(row["model"]["tuned"]["median_us"])


def _kernel_s(row: Row) -> float | None:
    return None if "refused" in row else float(row["kernel"]["tuned"]["median_us"]) * 1e-6


def _group(rows: Sequence[Row], group: str) -> list[Row]:
    return [row for row in rows if row["group"] == group]


def gain(row: Row) -> float | None:
    """One thread's time over several threads', in the same turns; None where one takes no longer than LONG_US."""
    alone = {} if "refused" in row else row["kernel"].get(ALONE)
    if not alone or alone["median_us"] <= LONG_US:
        return None
    return float(alone["median_us"]) / float(row["kernel"]["tuned"]["median_us"])


def _bar(
    title: str,
    rows: Sequence[Row],
    figure: Callable[[Row], float | None],
    reduce: Reduce,
    required: float,
    remarks: Mapping[str, str] = MappingProxyType({}),
) -> Bar:
    """A refused shape is 0: what does not run reaches no bar. `remarks`: what stands behind a shape that is short."""
    found = {row["shape"]: 0.0 if "refused" in row else figure(row) for row in rows}
    values = {name: value for name, value in found.items() if value is not None}
    short = sorted((value, name) for name, value in values.items() if value < required)
    value = reduce(list(values.values())) if values else None
    named = tuple(f"{name} {value:.2f}{remarks.get(name, '')}" for value, name in short)
    return Bar(title, value, required, named)


def _gain_bar(first: Sequence[Row], two: Sequence[Row]) -> Bar:
    """Beside a shape that is short stands how much more two threads got from memory, in the same run."""
    one = {row["shape"]: row["ceilings"]["memory"] for row in first if row["threads"] == 1}
    both = {row["shape"]: row["ceilings"]["memory"] for row in two}
    remarks = {name: f" (memory {both[name] / one[name]:.2f})" for name in both.keys() & one.keys()}
    return _bar("two threads: worst gain over one, above 1 ms (kernel)", two, gain, min, GAIN, remarks)


def _build_bar(builds: Mapping[str, Any] | None) -> Bar:
    title = "build: median of a candidate of resnet50's Tasks"
    if builds is None:
        return Bar(title, None, 30.0, (), at_most=True, unit=" ms")
    slowest = f"{builds['slowest']} {builds['slowest_ms']:.0f} ms"
    return Bar(title, builds["median_ms"], 30.0, (slowest,), at_most=True, unit=" ms")


_LEAST: Mapping[str, tuple[tuple[Callable[[Row], float | None], float], ...]] = {
    "contraction": ((peak_share, CONTRACTION[0]),),
    "ragged": ((bound_share, RAGGED[0]),),
    "winograd": ((peak_share, WINOGRAD),),
    "memory": ((bound_share, MEMORY), (peer_ratio, PEERS)),
    "int8": ((peer_ratio, PEERS),),
}
