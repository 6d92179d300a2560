"""Heavy stages: the nests of what does most of a Workload's work, for many candidates at once.

Candidates whose Schedules differ in factors only are followed together (parametric.py), and all that read alike become
one array. The anchor is heavy; so is any other reduction with a good part of its points, as attention's second product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile

import numpy as np

from compiler.errors import ScheduleError
from compiler.schedule.primitives import apply_step, replay
from compiler.schedule.schedule import Schedule
from compiler.schedule.state import State
from compiler.schedule.steps import Algorithm, Inline, Step
from compiler.workload.ir import Stage, Workload
from tuner.candidate import Candidate
from tuner.cost_model.concrete import concrete_nest
from tuner.cost_model.form import Form, anchor_after, form_of
from tuner.cost_model.nest import Nests, joined
from tuner.cost_model.parametric import Tracks, Unfollowed, parametric_nests
from tuner.cost_model.path import path_steps
from tuner.task import Task

_HEAVY = 1 / 8
"""A reduction with this share of the anchor's points counts beside it."""


@dataclass(frozen=True)
class Shared:
    """What all candidates of a Workload with the same rewrite share.

    Attributes:
        start: the state before their other Steps.
        heavy: the anchor, and what else does much of the work.
    """

    start: State
    tracks: Tracks
    heavy: tuple[Stage, ...]

    @property
    def other_operations(self) -> int:
        """Of all stages but the heavy ones."""
        return sum(s.operations for s in self.start.workload.stages if s not in self.heavy)


@dataclass(frozen=True)
class Heavy:
    """A heavy stage of some candidates. `places`: theirs; `product`: its place among the heavy stages."""

    shared: Shared
    product: int
    places: list[int]
    nests: Nests

    @property
    def stage(self) -> Stage:
        """The stage, as the candidates' rewrite makes it."""
        return self.shared.heavy[self.product]

    @property
    def is_anchor(self) -> bool:
        """Whether it is the anchor; each legal candidate has one."""
        return self.product == 0


@dataclass
class _Members:
    """The candidates of one form: their places, the Steps of the first (`path_steps`), the factors of each."""

    shared: Shared
    product: int
    steps: tuple[Step, ...]
    aside: int
    places: list[int] = field(default_factory=list)
    factors: list[list[int]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Of the stage that it is the form of."""
        return self.shared.heavy[self.product].name


class HeavyNests:
    """Keeps what the candidates of a Workload share."""

    def __init__(self) -> None:
        self._shared: dict[tuple[str, tuple[Step, ...]], Shared] = {}

    def __call__(self, task: Task, candidates: Sequence[Candidate]) -> list[Heavy]:
        """Every heavy stage of every candidate; nothing of those whose Steps are illegal."""
        forms: dict[Form, _Members] = {}
        for place, candidate in enumerate(candidates):
            rewrites, others = _parts(candidate.schedule.steps)
            try:
                shared = self._shared_of(task.workload, rewrites)
            except ScheduleError:
                continue
            for product, stage in enumerate(shared.heavy):
                steps, aside = path_steps(anchor_after(stage.name, others), others, shared.tracks.readers)
                form, factors = form_of(steps)
                key = (rewrites, product, aside, form)
                members = forms.setdefault(key, _Members(shared, product, steps, aside))
                members.places.append(place)
                members.factors.append(factors)
        alike: dict[tuple[object, ...], tuple[_Members, list[int], list[Nests]]] = {}
        for members in forms.values():
            whole = [candidates[place].schedule.steps for place in members.places]
            for own, nests in _nests(members, whole):
                same = (id(members.shared), members.product, nests.form)
                found = alike.setdefault(same, (members, [], []))
                found[1].extend(own)
                found[2].append(nests)
        return [Heavy(m.shared, m.product, places, joined(parts)) for m, places, parts in alike.values()]

    def _shared_of(self, workload: Workload, rewrites: tuple[Step, ...]) -> Shared:
        key = (workload.digest, rewrites)
        if key not in self._shared:
            start = replay(workload, Schedule(rewrites))
            anchor = start.workload.anchor
            beside = [
                stage
                for stage in start.workload.stages
                if stage.reduce_axes and stage is not anchor and stage.points >= _HEAVY * anchor.points
            ]
            self._shared[key] = Shared(start, Tracks(start), (anchor, *beside))
        return self._shared[key]


def _nests(members: _Members, steps: Sequence[tuple[Step, ...]]) -> list[tuple[list[int], Nests]]:
    """The members of a form with their Nests; one by one, less illegal ones, where its Steps cannot be followed."""
    shared, factors = members.shared, np.array(members.factors, dtype=np.float64)
    try:
        nests = parametric_nests(shared.tracks, members.name, members.steps, factors, members.aside)
    except (ScheduleError, Unfollowed):
        alone = [([place], _concrete(members, own)) for place, own in zip(members.places, steps, strict=True)]
        return [(place, nests) for place, nests in alone if nests is not None]
    return [(members.places, nests)]


def _concrete(members: _Members, steps: tuple[Step, ...]) -> Nests | None:
    """By applying the Steps; None where one is illegal."""
    _, others = _parts(steps)
    try:
        state = members.shared.start
        for step in others:
            state = apply_step(state, step)
    except ScheduleError:
        return None
    return concrete_nest(state, anchor_after(members.name, others))


def _parts(steps: tuple[Step, ...]) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """The Steps that rewrite the Workload, and those that follow."""
    rewrites = tuple(takewhile(lambda step: isinstance(step, Algorithm | Inline), steps))
    return rewrites, steps[len(rewrites) :]
