"""`luthier doctor`: what this machine offers, and whether Luthier works on it."""

from __future__ import annotations

import typer

from luthier.cli import options
from luthier.cli.output import only_json, put_json, put_text


def doctor(database: options.Database = None, json: options.Json = False) -> None:
    """Show versions, the machine and the tuning log, and test the whole way with a tiny model. Exits 1 if one fails."""
    with only_json():
        from luthier.health import examine

        document = examine(database)
    if json:
        put_json(document)
    else:
        lines = [
            f"{name:>14}  {version or 'not installed'}" for name, version in document["versions"].items()
        ]
        lines += [
            f"{'ok' if c['ok'] else 'FAILED':>14}  {c['name']}: {c['detail']}" for c in document["checks"]
        ]
        put_text("\n".join(lines))
    if not document["ok"]:
        raise typer.Exit(1)
