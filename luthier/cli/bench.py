"""`luthier bench`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from luthier.cli import options
from luthier.cli.output import only_json, put_json, put_text
from luthier.shapes import parse_shapes


def bench(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL|OUT", help="an ONNX file, or what luthier compile wrote")
    ],
    threads: options.Threads = None,
    against: Annotated[
        str,
        typer.Option(
            metavar="NAMES", help="engines to compare with, separated by commas: onnxruntime, openvino"
        ),
    ] = "",
    seconds: options.Seconds = 5.0,
    profile: Annotated[
        bool, typer.Option("--profile", help="time every kernel instead, against what the machine can do")
    ] = False,
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="OUT.json", help="write the kernels' times in Chrome's trace format; implies --profile"
        ),
    ] = None,
    shape: options.Shapes = [],  # noqa: B006  (typer copies it)
    error_budget: options.ErrorBudget = None,
    database: options.Database = None,
    json: options.Json = False,
) -> None:
    """Time a model, in alternation with other engines, and measure the error of each."""
    if against and (profile or trace is not None):
        message = "a profile is of our kernels alone; leave out --against"
        raise typer.BadParameter(message)
    with only_json():
        from luthier.bench.profile import profile as take_profile
        from luthier.bench.run import bench as run
        from luthier.build import make_options

        peers = [name.strip() for name in against.split(",") if name.strip()]
        chosen = make_options(None, threads, parse_shapes(shape), error_budget, database)
        if profile or trace is not None:
            document, text = take_profile(model, chosen, seconds or 5.0, trace), _profile_text
        else:
            document, text = run(model, chosen, peers, seconds or 5.0), _text
    if json:
        put_json(document)
    else:
        put_text(text(document))


def _text(document: dict[str, Any]) -> str:
    threads = document["threads"]
    lines = [f"{document['model']} on {document['target']}, {threads} thread{'s' if threads > 1 else ''}"]
    for result in document["results"]:
        error = result["max_relative_error"]
        ratio = document["ratio"].get(result["engine"])
        lines.append(
            f"  {result['engine']:<12} {result['median_ms']:9.3f} ms  "
            f"(p10 {result['p10_ms']:.3f}, p90 {result['p90_ms']:.3f}, {result['runs']} runs)"
            + ("" if error is None else f"  error {error:.1e}")
            + ("" if ratio is None else f"  luthier is {ratio:.2f} times as fast")
        )
    return "\n".join(lines)


def _profile_text(document: dict[str, Any]) -> str:
    rates = ", ".join(f"{level} {rate:.0f}" for level, rate in document["ceilings"]["gbytes_per_s"].items())
    threads = document["threads"]
    lines = [
        f"{document['model']} on {document['target']}, {threads} thread{'s' if threads > 1 else ''}: "
        f"{document['median_us']:.1f} µs, of which between kernels {document['between_us']:.1f} µs "
        f"({document['runs']} runs)",
        f"this machine now: {document['ceilings']['gflops']:.0f} GFLOP/s; GB/s: {rates}",
        f"  {'µs':>10} {'share':>6} {'GFLOP/s':>8} {'GB/s':>7} {'of roofline':>15} {'busy':>5}  kernel",
    ]
    for kernel in sorted(document["kernels"], key=lambda k: -k["median_us"]):
        gflops, fraction = kernel["gflops"], kernel["roofline_fraction"]
        roofline = "-" if fraction is None else f"{fraction:.0%} {kernel['bound_by']}"
        lines.append(
            f"  {kernel['median_us']:10.1f} {kernel['share']:6.1%} {'-' if gflops is None else f'{gflops:.1f}':>8} "
            f"{kernel['gbytes_per_s']:7.1f} {roofline:>15} {kernel['busy']:5.0%}  {kernel['name']}"
        )
    return "\n".join(lines)
