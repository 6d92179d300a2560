"""From nothing to a measured gain: tune ResNet-50 through a local server, then compile it from the log alone.

    python -m examples.demo [--network resnet50] [--seconds 160] [--threads N] [--folder .demo]

Everything it makes lies in the folder. The server is stopped at the end, however it ends.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from compiler.target import usable_cores
from examples.networks import NAMES, filled
from luthier import Client, LuthierError, TuningReport
from luthier.cli.progress import JobView, show_progress

ROOT = Path(__file__).resolve().parents[1]
STOP_S = 30.0


def main() -> None:
    """Run all steps and say what each one gave."""
    arguments = _arguments()
    folder: Path = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("luthier.db*"):
        old.unlink()
    database = f"sqlite:///{folder / 'luthier.db'}"

    _say(f"1. {arguments.network} with seeded weights")
    model = filled(arguments.network, folder)
    _say(f"   {model}, {model.stat().st_size >> 20} MiB")

    _say("2. a server on SQLite, and a job over REST")
    with _server(database) as server:
        _say(f"   {server['url']}, {server['database']}")
        report = _tune(server, model, arguments)
    report.save_html(folder / "report.html")

    _say("3. all engines in alternation, in a new process")
    figures = _bench(model, database, report.threads, min(8.0, arguments.seconds))
    _say(_table(report))
    _say(_verdict(report, figures))

    _say("4. compiled again in a new process, from the log alone")
    before = _luthier("log", "stats", "--database", database)
    compiled = _luthier(
        *("compile", model, "-o", folder / f"{model.stem}.luthier", "--threads", report.threads),
        *("--database", database, "--require-tuned"),
    )
    measured = _luthier("log", "stats", "--database", database)["trials"] - before["trials"]
    hits, tasks = compiled["hits"], len(compiled["tasks"])
    _say(
        f"   {hits} of {tasks} tasks are exact hits ({100 * hits / tasks:.0f} %), {measured} measurements, "
        f"{compiled['seconds']:.1f} s, {compiled['bytes'] >> 20} MiB in {compiled['output']}"
    )
    _say(f"5. the report of the run: {folder / 'report.html'}")


def _tune(server: dict[str, Any], model: Path, arguments: argparse.Namespace) -> TuningReport:
    with Client(server["url"], server["token"]) as client:
        job = client.submit(model, seconds=arguments.seconds, threads=arguments.threads)
        _say(f"   job {job.id}, at most {arguments.seconds:.0f} s, {arguments.threads} threads")
        try:
            with show_progress(JobView(model.stem, budget_seconds=arguments.seconds)) as listener:
                job.wait(progress=listener)
        except KeyboardInterrupt:
            job.cancel()
            raise
        return TuningReport.from_json(job.report())


@contextmanager
def _server(database: str) -> Iterator[dict[str, Any]]:
    """A server of its own session, so that Ctrl-C reaches this process alone and the server is stopped in order."""
    process = subprocess.Popen(
        [sys.executable, "-m", "luthier", "serve", "--port", "0", "--json", "--database", database],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            sys.exit("the server did not start; see the message above")
        yield json.loads(line)
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _bench(model: Path, database: str, threads: int, seconds: float) -> dict[str, Any]:
    output = model.with_name("bench.json")
    options = (
        *("--models", str(model.parent), "--threads", str(threads), "--time", str(seconds)),
        *("--database", database, "--json", str(output)),
    )
    command = [sys.executable, "-m", "benchmarks.models", model.stem, *options]
    # Its table goes to stderr; the bars that it prints on stdout are for a machine with nothing else to do.
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
    (row,) = json.loads(output.read_text())["rows"]
    figures: dict[str, Any] = row
    return figures


def _luthier(*arguments: object) -> dict[str, Any]:
    """A command of its own process, with the JSON document it prints."""
    command = [sys.executable, "-m", "luthier", *map(str, arguments), "--json"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def _table(report: TuningReport) -> str:
    head = f"   {'task':<44} {'weight':>6} {'untuned µs':>11} {'tuned µs':>9} {'trials':>6} {'GFLOP/s':>8}"
    rows = [
        f"   {task.name[:44]:<44} {task.weight:>6} {_number(task.untuned_us):>11} {_number(task.tuned_us):>9} "
        f"{task.trials:>6} {_number(task.gflops):>8}"
        for task in report.tasks
    ]
    total = f"   {report.trials} trials, {report.failed_trials} failed, in {report.seconds:.0f} s"
    return "\n".join((head, *rows, total))


def _verdict(report: TuningReport, figures: dict[str, Any]) -> str:
    """What the job decided, and each engine's median with what 10 and 90 percent of its few runs here do not pass."""
    engines = figures["engines"]
    decided = "published" if report.published else "not published: not faster beyond doubt"
    lines = [f"   the job: {report.gain()}, {decided}", f"   model, {figures['threads']} threads:"]
    for name in ("untuned", "tuned", "onnxruntime"):
        if name in engines:
            gain = engines[name]["median_us"] / engines["tuned"]["median_us"]
            ratio = "" if name == "tuned" else f"   tuned is {gain:.2f} times as fast"
            lines.append(
                f"   {name:<12} {engines[name]['median_us'] / 1e3:>9.2f} ms "
                f"({engines[name]['p10_us'] / 1e3:.2f} to {engines[name]['p90_us'] / 1e3:.2f})   "
                f"error {engines[name]['error']:.1e}{ratio}"
            )
    return "\n".join(lines)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def _say(text: str) -> None:
    print(text, flush=True)


def _stop(*_: object) -> None:
    raise KeyboardInterrupt


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--network", choices=NAMES, default="resnet50")
    parser.add_argument("--seconds", type=float, default=160.0, help="wall clock of the job")
    parser.add_argument("--threads", type=int, default=min(2, usable_cores()))
    parser.add_argument("--folder", type=Path, default=Path(".demo"))
    return parser.parse_args()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _stop)
    start = time.monotonic()
    try:
        main()
    except LuthierError as problem:
        sys.exit(f"demo: {problem}")
    except KeyboardInterrupt:
        sys.exit("demo: stopped, and the server with it")
    _say(f"done in {time.monotonic() - start:.0f} s")
