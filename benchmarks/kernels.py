"""Time single operators, default and tuned, beside the machine's ceilings and other engines (docs/benchmarks.md).

    python -m benchmarks.kernels [PATTERN ...] [--group GROUP ...] [--threads 1,2] [--trials 64] [--seconds S]
                                 [--time 2] [--looks 3] [--direct] [--skip-peers] [--json OUT] [--plot OUT.svg]
                                 [--check]

PATTERN is a name of a shape, or one with * and ?. --trials and --seconds bound the tuning of each shape, --time the
turns in which it is timed. A shape below its bar is timed up to --looks times, and its least disturbed figures count
(benchmarks/looks.py). --check exits 1 where a bar is missed. --group can be there several times; the build times of a
network's candidates are taken when every group is, or with --group build.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatch
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import luthier
from benchmarks.bars import (
    Bar,
    above_bound,
    bars,
    best_peer,
    bound_share,
    gain,
    is_short,
    peak_share,
    peer_ratio,
    wrong_peers,
)
from benchmarks.build_time import build_times
from benchmarks.canaries import canaries
from benchmarks.kernel_run import ENGINES, RunOptions, run_shape
from benchmarks.kernel_shapes import GROUPS, SHAPES, Shape
from benchmarks.looks import joined
from benchmarks.roofline_plot import roofline_svg
from compiler.target import native_target, usable_cores
from workers.device import describe_device, device_json

_BUILD = "build"


def main() -> None:
    """Time what the arguments ask for; a table on stderr, JSON and a plot into files."""
    arguments = _arguments()
    peers = _peers(skip=arguments.skip_peers)
    rows = _rows(arguments, peers)
    everything = not arguments.shapes and not arguments.group
    builds = build_times(native_target(), 1) if everything or _BUILD in arguments.group else None
    found = bars(rows, builds)
    _summary(found)
    if arguments.json:
        document = {
            "device": device_json(describe_device()),
            "rows": rows,
            "builds": builds,
            "bars": [{**vars(bar), "met": bar.met} for bar in found],
        }
        arguments.json.write_text(json.dumps(document, indent=1) + "\n")
    if arguments.plot:
        arguments.plot.write_text(roofline_svg(rows))
    if arguments.check and any(bar.met is False for bar in found):
        sys.exit(1)


def select(patterns: Sequence[str], groups: Collection[str]) -> list[Shape]:
    """The shapes of some groups, or of all where none is named, that match a pattern.

    Raises:
        InputError: there are none.
    """
    found = [
        shape
        for shape in SHAPES.values()
        if (not groups or shape.group in groups)
        and (not patterns or any(fnmatch(shape.name, p) for p in patterns))
    ]
    if not found and _BUILD not in groups:
        msg = f"no shape matches {' '.join((*patterns, *groups))}; the shapes are {', '.join(SHAPES)}"
        raise luthier.InputError(msg)
    return found


def table_line(row: Mapping[str, Any]) -> str:
    """One line for people."""
    name = f"{row['shape']:<30} {row['threads']}t"
    if "refused" in row:
        return f"{name}  refused: {row['refused']}"
    kernel, model = row["kernel"], row["model"]
    times = "  ".join(f"{engine} {figures['median_us']:.1f}" for engine, figures in model.items())
    best, share = best_peer(row), peak_share(row)
    ratio = "" if best is None else f"  {best[0]}/ours {peer_ratio(row):.2f}"
    over_one = "" if gain(row) is None else f"  over one thread {gain(row):.2f}"
    noise = "  NOT IDLE: above the bound" if above_bound(row) else ""
    disturbed = f"  disturbed {row['disturbed']['kernel tuned']:.0%}"
    how = "".join(f"  {name}" for name in row["algorithms"])
    wrong = "".join(f"  [{k} answers wrong: error {e:.0e}]" for k, e in wrong_peers(row).items())
    refused = "".join(f"  [{reason}]" for reason in row["refused_peers"].values())
    return (
        f"{name}  kernel us: default {_spread(kernel['default'])} tuned {_spread(kernel['tuned'])}  "
        f"bound {row['bound_us']:.1f} by {row['bound_by']} share {bound_share(row):.2f}  "
        f"peak {row['ceilings']['multiply_add'] / 1e9:.0f} GFLOP/s share {share:.2f}  "
        f"model us: {times}{ratio}{over_one}  error {row['errors']['luthier']:.0e}{how}{disturbed}{noise}"
        f"{wrong}{refused}"
    )


def _spread(figures: Mapping[str, float]) -> str:
    return f"{figures['median_us']:.1f} ({figures['p10_us']:.1f}..{figures['p90_us']:.1f})"


def _summary(found: Sequence[Bar]) -> None:
    print(
        "\nkernel: ours alone, unpadded input in its own layout, bias and ReLU included; against the ceilings"
    )
    print("whole model: one operator, channels first, called from Python; against the same model in a peer")
    for bar in found:
        print(bar.line())


def _rows(arguments: argparse.Namespace, peers: tuple[str, ...]) -> list[dict[str, Any]]:
    """A row for each shape and number of threads; a line is printed for each look."""
    shapes = [
        (s, threads) for s in select(arguments.shapes, arguments.group) for threads in arguments.threads
    ]
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    with (
        canaries(native_target(), arguments.threads) as singers,
        tempfile.TemporaryDirectory(prefix="luthier-bench-") as folder,
    ):
        for number in range(arguments.looks):
            for shape, threads in shapes:
                before = rows.get((shape.name, threads))
                if before is not None and not is_short(before):
                    continue
                options = RunOptions(
                    native_target(),
                    threads,
                    arguments.trials,
                    arguments.seconds,
                    arguments.time,
                    peers,
                    arguments.direct,
                )
                row = run_shape(shape, Path(folder), options, singers[threads])
                rows[shape.name, threads] = row if before is None else joined(before, row)
                again = f"look {number + 1}: " if number else ""
                print(again + table_line(rows[shape.name, threads]), file=sys.stderr, flush=True)
    return list(rows.values())


def _peers(*, skip: bool) -> tuple[str, ...]:
    """The installed engines; a loud note for each that is missing."""
    if skip:
        return ()
    for name in ENGINES:
        if find_spec(name) is None:
            print(f"NOTE: {name} is not installed; no row compares with it", file=sys.stderr)
    return tuple(name for name in ENGINES if find_spec(name) is not None)


def _thread_counts(text: str) -> list[int]:
    counts = [int(number) for number in text.split(",")]
    if not all(1 <= count <= usable_cores() for count in counts):
        msg = f"{text} threads; this machine has {usable_cores()} cores"
        raise argparse.ArgumentTypeError(msg)
    return counts


def _looks(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        msg = f"{text} looks; each shape has to be timed once at least"
        raise argparse.ArgumentTypeError(msg)
    return int(text)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("shapes", nargs="*", metavar="PATTERN")
    parser.add_argument("--group", choices=(*GROUPS, _BUILD), action="append", default=[])
    parser.add_argument("--threads", type=_thread_counts, default=[1])
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--seconds", type=float, help="of tuning, per shape")
    parser.add_argument("--time", type=float, default=2.0, metavar="SECONDS", help="of timing, per shape")
    parser.add_argument(
        "--looks", type=_looks, default=3, help="times that a shape below its bar is timed, at most"
    )
    parser.add_argument("--direct", action="store_true", help="no algorithm with fewer multiplications")
    parser.add_argument("--skip-peers", action="store_true")
    parser.add_argument("--json", type=Path, metavar="OUT")
    parser.add_argument("--plot", type=Path, metavar="OUT.svg")
    parser.add_argument("--check", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main()
    except luthier.LuthierError as problem:
        sys.exit(f"benchmarks.kernels: {problem}")
