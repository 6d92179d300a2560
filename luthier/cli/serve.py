"""`luthier serve`."""

from __future__ import annotations

import signal
import sys
from typing import Annotated

import typer

from compiler.errors import InputError
from luthier.cli import options
from luthier.cli.output import put_json, put_text, say


def serve(
    host: Annotated[str, typer.Option(metavar="H", help="address to listen on")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, metavar="P", help="0 takes a free one")] = 8765,
    database: options.Database = None,
    json: options.Json = False,
) -> None:
    """Serve the REST interface and the tuning log; prints the URL and, once, a token. LUTHIER_TOKEN adds a token."""
    try:
        from service.serve import run_server
    except ModuleNotFoundError as error:
        msg = f"the server needs {error.name}; install it with: pip install 'luthier[service]'"
        raise InputError(msg) from error
    from service.settings import Settings

    # The server passes the signal on when it has shut down in good order: that is a success.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGINT, lambda *_: sys.exit(0))
    run_server(host, port, database, Settings().token_text, _put_document if json else _put_lines)


def _put_document(url: str, token: str | None, database: str) -> None:
    put_json({"url": url, "database": database, "token": token})


def _put_lines(url: str, token: str | None, database: str) -> None:
    put_text(url if token is None else f"{url}\ntoken: {token}")
    say(f"serving {database}; Ctrl-C ends it")
