"""Compare two commits by paired ratios: the same models in two processes, each from a worktree of its own, in turns.

    python -m benchmarks.compare_commits A B [PATTERN ...] [--models DIR] [--threads N] [--trials N] [--seconds S]
                                         [--time 10] [--json OUT]

A ratio above 1 means that B is faster. Each commit has an empty tuning log of its own: without --trials or --seconds
the untuned schedules are compared. B may be `.`: the tree as it is. The interval is that of 95 % of resampled rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import luthier
from benchmarks.intervals import best_ratio
from benchmarks.models import find_models
from examples.networks import filled
from luthier.bench.turns import SETTLE_S, take_turns
from tuner.interval import Interval

_ROOT = Path(__file__).resolve().parent.parent
_WORKER = Path(__file__).resolve().parent / "commit_worker.py"
_HERE = "."
_ROUNDS = 11
_STOP_S = 10.0


def main() -> None:
    """A line per model on stdout; JSON into a file."""
    arguments = _arguments()
    rows = []
    with ExitStack() as stack:
        trees = [stack.enter_context(tree(commit)) for commit in (arguments.a, arguments.b)]
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="luthier-bench-"))
        for name, given in find_models(arguments.patterns, arguments.models).items():
            row = compare(given or filled(name, folder), (trees[0], trees[1]), arguments)
            rows.append({"model": name, **row})
            print(_line(rows[-1]), flush=True)
    if arguments.json:
        document = {"a": arguments.a, "b": arguments.b, "threads": arguments.threads, "rows": rows}
        arguments.json.write_text(json.dumps(document, indent=1) + "\n")


@contextmanager
def tree(commit: str) -> Iterator[Path]:
    """A worktree of a commit, removed afterwards; for `.` the tree as it is. Raises InputError for an unknown one."""
    if commit == _HERE:
        yield _ROOT
        return
    with tempfile.TemporaryDirectory(prefix="luthier-tree-") as folder:
        place = Path(folder) / "tree"
        try:
            _git("worktree", "add", "--detach", "--quiet", str(place), commit)
        except subprocess.CalledProcessError as error:
            msg = f"git has no tree of {commit}: {error.stderr.strip()}"
            raise luthier.InputError(msg) from error
        try:
            yield place
        finally:
            _git("worktree", "remove", "--force", str(place))


class Worker:
    """A process that runs a model with the code of a tree, as often as it is told to. Close it after use."""

    def __init__(self, code: Path, model: Path, options: Mapping[str, Any]) -> None:
        """Start it; it compiles (and tunes) while others do so too: wait for it with `ready`."""
        environment = {**os.environ, "PYTHONPATH": str(code)}
        command = [sys.executable, "-P", str(_WORKER), str(model), json.dumps(dict(options))]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, text=True, env=environment, cwd=code
        )

    def ready(self) -> dict[str, Any]:
        """What it says of itself: where its code is. Raises InputError where it ended."""
        return dict(self._answer())

    def __call__(self, runs: int) -> float:
        """Seconds per run."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{runs}\n")
        self._process.stdin.flush()
        return float(self._answer())

    def close(self) -> None:
        """End it: it stops when its input does."""
        try:
            self._process.communicate(timeout=_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            msg = f"the process of a commit ended with status {self._process.wait()}; its message is above"
            raise luthier.InputError(msg)
        return json.loads(line)


def compare(model: Path, trees: tuple[Path, Path], arguments: argparse.Namespace) -> dict[str, Any]:
    """Medians of both in microseconds, and the ratio of A's to B's."""
    options = {"threads": arguments.threads, "trials": arguments.trials, "seconds": arguments.seconds}
    workers: dict[str, Worker] = {}
    try:
        # One after the other: tuning measures.
        for name, code in zip("ab", trees, strict=True):
            workers[name] = Worker(code, model, options)
            workers[name].ready()
        times = take_turns(
            workers, arguments.time, settle_s=SETTLE_S if arguments.threads > 1 else 0.0, rounds=_ROUNDS
        )
    finally:
        for worker in workers.values():
            worker.close()
    ratio = best_ratio([times["a"].samples_s], times["b"].samples_s)
    return {**{name: taken.to_json() for name, taken in times.items()}, "ratio": asdict(ratio)}


def _line(row: Mapping[str, Any]) -> str:
    ratio = Interval(**row["ratio"])
    verdict = "faster" if ratio.low > 1 else "slower" if ratio.high < 1 else "as fast, within noise"
    a, b = row["a"]["median_us"], row["b"]["median_us"]
    return f"{row['model']:<20} A {a / 1e3:.3f} ms  B {b / 1e3:.3f} ms  A/B {ratio:.2f}  B is {verdict}"


def _git(*arguments: str) -> None:
    subprocess.run(["git", "-C", str(_ROOT), *arguments], check=True, capture_output=True, text=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("a", metavar="A")
    parser.add_argument("b", metavar="B")
    parser.add_argument("patterns", nargs="*", metavar="PATTERN")
    parser.add_argument("--models", type=Path, metavar="DIR")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--trials", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--time", type=float, default=10.0, metavar="SECONDS", help="of timing, per model")
    parser.add_argument("--json", type=Path, metavar="OUT")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main()
    except luthier.LuthierError as problem:
        sys.exit(f"benchmarks.compare_commits: {problem}")
