from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from tuner.task_scheduler.gradient import GradientScheduler, TaskShare


def drive(
    scheduler: GradientScheduler, best_s: Callable[[int, int], float | None], batches: int = 1000
) -> list[tuple[int, int]]:
    """(task, size) of each batch; `best_s(task, trials)` is a Task's best time after so many trials."""
    taken: list[tuple[int, int]] = []
    trials: Counter[int] = Counter()
    while len(taken) < batches and (choice := scheduler.next()) is not None:
        task, size = choice
        trials[task] += size
        scheduler.start(task, size)
        scheduler.observe(task, size, best_s(task, trials[task]))
        taken.append(choice)
    return taken


def totals(taken: list[tuple[int, int]]) -> Counter[int]:
    found: Counter[int] = Counter()
    for task, size in taken:
        found[task] += size
    return found


def test_every_task_gets_a_small_first_batch_the_heaviest_first() -> None:
    shares = [TaskShare(1, 100), TaskShare(4, 100), TaskShare(1, 300)]
    taken = drive(GradientScheduler(shares, 200, 16, 4), lambda task, trials: 1.0 / trials)
    assert taken[:3] == [(1, 4), (2, 4), (0, 4)]
    assert sum(size for _, size in taken) == 200


def test_the_heavy_task_gets_most_when_all_improve_alike() -> None:
    shares = [TaskShare(weight, 100) for weight in (1, 10, 1, 1)]
    taken = totals(drive(GradientScheduler(shares, 300, 16, 99), lambda task, trials: 1e-3 / trials**0.1))
    assert taken[1] > 1.5 * max(taken[0], taken[2], taken[3])


def test_the_task_that_just_improved_gets_more_than_its_equal() -> None:
    shares = [TaskShare(1, 100)] * 2

    def best_s(task: int, trials: int) -> float:
        return 1e-3 if task == 0 else 1e-3 * max(0.2, 1 - 0.01 * trials)

    # the gain that is still hoped for shrinks with the best time, so give the improving one more to lose
    taken = totals(
        drive(GradientScheduler(shares, 64, 8, 99), lambda t, n: best_s(t, n) * (1 if t == 0 else 2))
    )
    assert taken[1] > taken[0]


def test_who_will_not_be_chosen_before_the_budget_ends_is_done() -> None:
    weights = [100, 1, 50, 2, 70]
    scheduler = GradientScheduler([TaskShare(weight, 100) for weight in weights], 52, 16, 99)
    drive(scheduler, lambda task, trials: 1.0, batches=5)
    assert not any(scheduler.is_done(task) for task in range(5))
    taken = [task for task, _ in drive(scheduler, lambda task, trials: 1.0, batches=1)]
    left_out = {task for task in range(5) if scheduler.is_done(task)}
    assert left_out == {1, 3}
    taken += [task for task, _ in drive(scheduler, lambda task, trials: 1.0)]
    assert not left_out & set(taken)


def test_patience_ends_a_task_and_then_the_run() -> None:
    shares = [TaskShare(1, 100), TaskShare(1, 100)]
    scheduler = GradientScheduler(shares, None, 10, 3)

    def best_s(task: int, trials: int) -> float:
        return 1.0 if task == 0 else max(0.5, 1.0 - 0.02 * trials)

    taken = drive(scheduler, best_s)
    assert totals(taken)[0] == 4 + 3 * 10  # the first batch, then three without a gain
    assert totals(taken)[1] > totals(taken)[0]
    assert scheduler.next() is None


def test_less_than_a_percent_is_no_improvement() -> None:
    taken = drive(
        GradientScheduler([TaskShare(1, 1)], None, 10, 2), lambda task, trials: 1.0 - 0.0005 * trials
    )
    assert len(taken) <= 5


@pytest.mark.parametrize("trials", [1, 3, 17, 64, 200])
@pytest.mark.parametrize("tasks", [1, 2, 25])
def test_the_budget_is_spent_to_the_last_trial(trials: int, tasks: int) -> None:
    shares = [TaskShare(1, 1 + i) for i in range(tasks)]
    taken = drive(GradientScheduler(shares, trials, 16, 10_000), lambda task, n: 1.0 / n)
    assert sum(size for _, size in taken) == trials
    assert all(1 <= size <= 16 for _, size in taken)


def test_small_budgets_make_sense() -> None:
    shares = [TaskShare(1, 2**i) for i in range(25)]
    best_s: Callable[[int, int], float] = lambda task, trials: 2.0**task / trials  # noqa: E731
    many = totals(drive(GradientScheduler(shares, 200, 16, 4), best_s))
    assert min(many.values()) >= 4
    assert many[24] >= 16
    some = totals(drive(GradientScheduler(shares, 64, 16, 4), best_s))
    assert len(some) == 25
    assert some[24] >= 8
    few = totals(drive(GradientScheduler(shares, 12, 16, 4), best_s))
    assert few == {24: 4, 23: 4, 22: 4}  # proper batches for the heaviest


def test_known_trials_cost_nothing_but_count() -> None:
    scheduler = GradientScheduler([TaskShare(1, 1), TaskShare(1, 1)], 8, 8, 2)
    for _ in range(3):
        scheduler.know(0, 8, 1.0)
    assert scheduler.is_done(0)
    assert drive(scheduler, lambda task, trials: 1.0) == [(1, 2), (1, 6)]


def test_a_task_that_never_works_is_left_alone_after_its_patience() -> None:
    scheduler = GradientScheduler([TaskShare(5, 100), TaskShare(1, 100)], None, 8, 2)
    taken = totals(drive(scheduler, lambda task, trials: None if task == 0 else 1.0 / trials, batches=30))
    assert taken[0] <= 4 + 8
    assert taken[1] > 100


def test_a_finished_task_gets_no_more() -> None:
    scheduler = GradientScheduler([TaskShare(9, 1), TaskShare(1, 1)], None, 8, 2)
    scheduler.finish(0)
    assert scheduler.next() == (1, 4)
    scheduler.finish(1)
    assert scheduler.next() is None
    assert GradientScheduler([], 5, 8, 2).next() is None


def test_a_first_batch_holds_every_start() -> None:
    shares = [TaskShare(1, 100, starts=3), TaskShare(1, 1), TaskShare(1, 1, starts=99)]
    scheduler = GradientScheduler(shares, 12, 16, 4)
    sizes = {}
    while (choice := scheduler.next()) is not None and choice[0] not in sizes:
        sizes[choice[0]] = choice[1]
        scheduler.start(*choice)
        scheduler.observe(*choice, 1.0)
    assert sizes == {0: 3, 1: 2, 2: 4}


def test_what_is_on_its_way_counts() -> None:
    scheduler = GradientScheduler([TaskShare(1, 100)] * 2, 9, 16, 4)
    sizes = []
    while (choice := scheduler.next()) is not None:
        sizes.append(choice)
        scheduler.start(*choice)
    assert [place for place, _ in sizes[:2]] == [0, 1]
    assert sum(size for _, size in sizes) == 9


@pytest.mark.parametrize(("trial_s", "size"), [(0.001, 16), (0.1, 10), (3.0, 4)])
def test_batches_of_slow_trials_are_small(trial_s: float, size: int) -> None:
    scheduler = GradientScheduler([TaskShare(1, 100)], None, 16, 4)
    scheduler.start(0, 4)
    scheduler.observe(0, 4, 1.0, trial_s)
    assert scheduler.next() == (0, size)
