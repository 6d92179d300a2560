"""`luthier db`: the schema of the tuning log."""

from __future__ import annotations

import typer

from luthier.cli import options
from luthier.cli.output import only_json, put_json, put_text

app = typer.Typer(help="Look after the database.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """Look after the database."""


@app.command()
def upgrade(database: options.Database = None, json: options.Json = False) -> None:
    """Bring the database's schema up to date."""
    from service.db.upgrade import open_database, schema_is_current
    from service.settings import Settings

    with only_json():
        opened = open_database(database or Settings().database_url, upgrade=True)
        try:
            document = {"database": opened.url, "current": schema_is_current(opened)}
        finally:
            opened.close()
    if json:
        put_json(document)
    else:
        put_text(f"{document['database']} is up to date")
