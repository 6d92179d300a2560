"""`luthier inspect --why`: an Explanation as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from luthier.explain import Explanation, Rival

_SHOWN_STEPS = 6
_ORIGIN = {
    "default": "no record: the default schedule, chosen by rules and an analytic model",
    "predicted": "no record: the cost model's choice, not measured",
    "near": "no record of its own: the schedule of a near task",
}


def explanation_text(explanation: Explanation) -> str:
    """Why this schedule won, against which, by how much, and what the model believed."""
    lines = [f"{explanation.workload[:12]}  {explanation.name}", *_origin(explanation), *_trials(explanation)]
    for rival in explanation.rivals:
        lines += _rival(rival)
    lines += ["", "steps:", *(f"  {step}" for step in explanation.steps or ("none: the plain loops",))]
    return "\n".join(lines)


def _origin(explanation: Explanation) -> list[str]:
    if explanation.median_s is None:
        return [_ORIGIN.get(explanation.lookup, f"lookup: {explanation.lookup}")]
    lines = [
        f"{_us(explanation.median_s)} on {explanation.device}, error {explanation.error:.1e}, "
        f"{explanation.stage} record{_job(explanation)}"
    ]
    if explanation.untuned_s is not None:
        gain = explanation.untuned_s / explanation.median_s
        lines.append(f"default schedule {_us(explanation.untuned_s)}: {gain:.2f} times as long")
    if explanation.rank is not None:
        lines.append(f"the cost model's number {explanation.rank} of {len(explanation.rivals) + 1} compared")
    return lines


def _job(explanation: Explanation) -> str:
    return "" if explanation.job is None else f" of job {explanation.job}"


def _trials(explanation: Explanation) -> list[str]:
    counts = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in explanation.trials.items())
    return [f"trials in the log: {counts or 'none'}"]


def _rival(rival: Rival) -> list[str]:
    low, median, high = rival.slower
    most = "?" if high is None else f"{high:.3f}"
    kind = "the default" if rival.is_default else "schedule"
    rank = "" if rival.rank is None else f", the model's number {rival.rank}"
    lines = [
        "",
        f"against {kind} {rival.schedule[:12]}: {median:.3f} times as long ({low:.3f} to {most}){rank}",
    ]
    if rival.only_here is None or rival.only_served is None:
        return [*lines, "  its trial is no longer in the log"]
    return [*lines, *_some("-", rival.only_here), *_some("+", rival.only_served)]


def _some(sign: str, steps: tuple[str, ...]) -> list[str]:
    lines = [f"  {sign} {step}" for step in steps[:_SHOWN_STEPS]]
    more = len(steps) - _SHOWN_STEPS
    return [*lines, f"  {sign} and {more} more steps"] if more > 0 else lines


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} us"
