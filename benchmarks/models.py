"""Time whole models, untuned and tuned, beside other engines (docs/benchmarks.md).

    python -m benchmarks.models [PATTERN ...] [--models DIR] [--threads 1,2] [--trials N] [--seconds S]
                                [--database URL] [--time 10] [--skip-peers] [--json OUT] [--plot OUT.svg]
                                [--record] [--check]

The models are those of examples/networks, and every ONNX file of --models. PATTERN is a name of one, with * and ?.
"tuned" takes what the tuning log knows; --trials and --seconds tune each model first, per number of threads. --time is
how long the turns of a model last. --record appends to the performance history; --check exits 1 where a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatch
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import luthier
from benchmarks import history
from benchmarks.bars import WRONG
from benchmarks.model_bars import geometric_mean, model_bars
from benchmarks.model_run import OWN, ModelOptions, run_model
from benchmarks.models_plot import models_svg
from compiler.target import usable_cores
from examples.networks import NAMES, filled
from luthier.bench.engines import PEERS
from tuner.interval import Interval
from workers.device import describe_device, device_json


def main() -> None:
    """Time what the arguments ask for; a table on stderr, bars on stdout, JSON and a plot into files."""
    arguments = _arguments()
    rows = []
    for row in _rows(arguments):
        rows.append(row)
        print(table_line(row), file=sys.stderr, flush=True)
    found = model_bars(rows)
    for bar in found:
        print(bar.line())
    for kind in ("tuned", "untuned"):
        mean = geometric_mean(rows, kind)
        print(f"{kind}: geometric mean over all rows {'-' if mean is None else f'{mean:.2f}'}")
    if arguments.json:
        bars = [{**vars(bar), "met": bar.met} for bar in found]
        document = {"device": device_json(describe_device()), "rows": rows, "bars": bars}
        arguments.json.write_text(json.dumps(document, indent=1) + "\n")
    if arguments.plot:
        arguments.plot.write_text(models_svg(rows))
    if arguments.record:
        history.record(rows)
    if arguments.check and any(bar.met is False for bar in found):
        sys.exit(1)


def find_models(patterns: Sequence[str], folder: Path | None) -> dict[str, Path | None]:
    """The models that match a pattern, by name; None for one of examples/networks. The folder's files win.

    Raises InputError where there are none.
    """
    known: dict[str, Path | None] = dict.fromkeys(NAMES)
    known |= {path.stem: path for path in sorted(folder.glob("*.onnx"))} if folder else {}
    found = {n: path for n, path in known.items() if not patterns or any(fnmatch(n, p) for p in patterns)}
    if not found:
        msg = f"no model matches {' '.join(patterns)}; the models are {', '.join(known)}"
        raise luthier.InputError(msg)
    return found


def table_line(row: Mapping[str, Any]) -> str:
    """One line for people."""
    name = f"{row['model']:<20} {row['threads']}t"
    if "refused" in row:
        return f"{name}  refused: {row['refused']}"
    engines = row["engines"]
    times = "  ".join(f"{name} {figures['median_us'] / 1e3:.3f}" for name, figures in engines.items())
    ratios = "  ".join(f"{kind} {_text(row[kind])}" for kind in ("tuned", "untuned", "gain") if row[kind])
    best = f"  {row['best_peer']} over " if row["best_peer"] else "  "
    peers = [name for name in engines if name not in OWN]
    wrong = [
        f"  [{n} answers wrong: error {e:.0e}]" for n in peers if not (e := engines[n]["error"]) <= WRONG
    ]
    notes = "".join([*wrong, *(f"  [{reason}]" for reason in row["refused_peers"].values())])
    lookups = " ".join(f"{count} {answer}" for answer, count in row["lookups"].items())
    errors = f"error {engines['tuned']['error']:.0e} (untuned {engines['untuned']['error']:.0e})"
    return f"{name}  ms: {times}{best}{ratios}  {errors}  schedules {lookups}{notes}"


def _text(ratio: Mapping[str, float]) -> str:
    return f"{Interval(**ratio):.2f}"


def _rows(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    peers = () if arguments.skip_peers else tuple(name for name in PEERS if find_spec(name) is not None)
    for name in () if arguments.skip_peers else sorted(set(PEERS) - set(peers)):
        print(f"NOTE: {name} is not installed; no row compares with it", file=sys.stderr)
    for name, given in find_models(arguments.patterns, arguments.models).items():
        with tempfile.TemporaryDirectory(prefix="luthier-bench-") as folder:
            path = given or filled(name, folder)
            for threads in arguments.threads:
                options = ModelOptions(
                    threads, arguments.trials, arguments.seconds, arguments.database, arguments.time, peers
                )
                yield run_model(path, options)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("patterns", nargs="*", metavar="PATTERN")
    parser.add_argument("--models", type=Path, metavar="DIR", help="time every ONNX file in it too")
    parser.add_argument("--threads", type=_thread_counts, default=[t for t in (1, 2) if t <= usable_cores()])
    parser.add_argument("--trials", type=int, help="of tuning, per model and number of threads")
    parser.add_argument("--seconds", type=float, help="of tuning, per model and number of threads")
    parser.add_argument("--database", metavar="URL", help="of the tuning log; the user's own by default")
    parser.add_argument("--time", type=float, default=10.0, metavar="SECONDS", help="of timing, per row")
    parser.add_argument("--skip-peers", action="store_true")
    parser.add_argument("--json", type=Path, metavar="OUT")
    parser.add_argument("--plot", type=Path, metavar="OUT.svg")
    parser.add_argument("--record", action="store_true", help="append to the performance history")
    parser.add_argument("--check", action="store_true")
    return parser.parse_args()


def _thread_counts(text: str) -> list[int]:
    counts = [int(number) for number in text.split(",")]
    if not all(1 <= count <= usable_cores() for count in counts):
        msg = f"{text} threads; this process may use {usable_cores()} cores"
        raise argparse.ArgumentTypeError(msg)
    return counts


if __name__ == "__main__":
    try:
        main()
    except luthier.LuthierError as problem:
        sys.exit(f"benchmarks.models: {problem}")
