"""Fit the rates of tuner/cost_model/cost.py: those under which predicted and measured times of the pools agree best.

A Task's times are compared with each other only, so that networks and machines do not matter. The rates stay near those
that are in use unless the pools say otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from scipy.optimize import minimize

from benchmarks.search.pools import Pool
from benchmarks.search.replay import candidates
from tuner.cost_model.cost import (
    Cycles,
    ProductWork,
    Rates,
    other_cycles,
    product_cycles,
    product_work,
    rates_for,
    rates_of,
    values_of,
)
from tuner.cost_model.heavy import HeavyNests
from tuner.cost_model.nest import Array
from tuner.cost_model.tile import tile_of
from tuner.task import Task

_STAY = 0.002
"""Cost of a rate that is e times another."""
_OUTLIER = 1.5
"""Larger residuals, of logarithms, count as this."""
_LEAST_SPREAD = 0.15
"""Standard deviation of logarithms; Tasks whose times are nearly equal do not count more."""


@dataclass(frozen=True)
class Measured:
    """A Task's candidates. `products`: places and work of each; `others`: operations of other stages, each."""

    task: Task
    products: tuple[tuple[list[int], ProductWork], ...]
    others: Array
    seconds: Array

    def cycles(self, rates: Rates) -> Array:
        """Predicted, of each candidate."""
        cycles = Cycles.none(len(self.seconds))
        for places, work in self.products:
            cycles.add(places, product_cycles(work, rates))
        cycles.add(list(range(len(self.seconds))), other_cycles(self.others, self.task.target, rates))
        return cycles.total(rates)


def measured(pool: Pool) -> Measured:
    """What a pool tells about rates."""
    timed = replace(pool, rows=tuple(row for row in pool.rows if row.seconds is not None))
    others = np.zeros(len(timed.rows))
    products = []
    for heavy in HeavyNests()(pool.task, candidates(timed)):
        tile = tile_of(heavy.nests, pool.task.target, heavy.stage)
        work = product_work(heavy.nests, tile, pool.task.target, pool.task.threads, heavy.stage)
        products.append((heavy.places, work))
        if heavy.is_anchor:
            others[heavy.places] = heavy.shared.other_operations
    return Measured(pool.task, tuple(products), others, np.array([row.seconds for row in timed.rows]))


def residual(of: Measured, rates: Rates) -> float:
    """Mean distance of predicted and measured logarithms, over the spread of the measured."""
    seen, predicted = np.log(of.seconds), np.log(of.cycles(rates))
    apart = np.abs((seen - seen.mean()) - (predicted - predicted.mean()))
    return float(np.minimum(apart, _OUTLIER).mean() / max(_LEAST_SPREAD, seen.std()))


def fitted(tasks: Sequence[Measured], start: Rates, evaluations: int = 3000) -> Rates:
    """The rates of the least mean residual."""
    begin = np.log(values_of(start))

    def loss(logs: Array) -> float:
        rates = rates_of(np.exp(logs))
        stay = _STAY * float(((logs - begin) ** 2).sum())
        return float(np.mean([residual(task, rates) for task in tasks])) + stay

    options = {"maxfev": evaluations, "maxiter": evaluations, "adaptive": True}
    return rates_of(np.exp(minimize(loss, begin, method="Nelder-Mead", options=options).x))


def rates_text(tasks: Sequence[Measured]) -> str:
    """The rates of each kind of CPU, and what they explain beside those in use."""
    lines = []
    for start in dict.fromkeys(rates_for(task.task.target) for task in tasks):
        own = [task for task in tasks if rates_for(task.task.target) == start]
        rates = fitted(own, start)
        now, then = (float(np.mean([residual(task, r) for task in own])) for r in (rates, start))
        lines.append(
            f"mean residual over the spread of {len(own)} Tasks: {now:.3f}; of the rates in use {then:.3f}"
        )
        lines += [f"  {f.name:10s} {getattr(rates, f.name):.4g}" for f in fields(rates)]
    return "\n".join(lines)
