"""`luthier serve`: uvicorn around the app."""

from __future__ import annotations

import ipaddress
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import uvicorn

from compiler.errors import InputError, ServiceError
from service.app import create_app
from service.composition import Services
from service.db.session import Database
from service.db.upgrade import open_database
from service.jobs.orchestrator import Orchestrator
from service.settings import Settings
from service.tokens import TokenStore

DEFAULT_PORT = 8765
MIN_TOKEN_CHARS = 16
_SHUTDOWN_S = 5
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


Announce = Callable[[str, str | None, str], None]
"""Takes the URL, the fresh token (None where one is known already), and the database without its password."""


class _Server(uvicorn.Server):
    """A server that tells open event streams to end as soon as it is asked to stop."""

    def __init__(self, config: uvicorn.Config, services: Services) -> None:
        super().__init__(config)
        self._services = services

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Like uvicorn's, but a signal that was obeyed is not raised again: the exit code stays 0."""
        before = {number: signal.signal(number, self.handle_exit) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._services.stopping.set()
        super().handle_exit(sig, frame)


def run_server(
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    database_url: str | None = None,
    token: str | None = None,
    announce: Announce | None = None,
) -> None:
    """Serve until SIGTERM or Ctrl-C; a running job then goes back into the queue.

    Args:
        host: address to listen on; one that others can reach needs a token first.
        port: 0 takes a free one.
        database_url: the tuning log; None for the default.
        token: accept this one too.
        announce: is told once where the server listens; by default the URL, and a fresh token where none is known
            yet, are printed, each on a line of its own.

    Raises:
        InputError: host, port or token cannot be used.
        DatabaseError: the tuning log cannot be opened.
    """
    settings = Settings()
    url = database_url or settings.database_url
    database = open_database(url)
    try:
        fresh = prepare_tokens(TokenStore(database), host, token)
        listener = _listen(host, port)
        services = _services(database, url, settings.cache_folder)
        bound = listener.getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        (announce or _announce)(f"http://{shown}:{bound}", fresh, database.url)
        config = uvicorn.Config(
            create_app(services),
            log_level="warning",
            timeout_graceful_shutdown=_SHUTDOWN_S,
            server_header=False,
            limit_concurrency=1000,
        )
        with listener:
            _Server(config, services).run([listener])
    finally:
        database.close()


def prepare_tokens(tokens: TokenStore, host: str, token: str | None) -> str | None:
    """Register a given token; the fresh one that was made where none is known. Raises InputError."""
    if token is not None:
        if len(token) < MIN_TOKEN_CHARS or not token.isascii() or not token.isprintable() or " " in token:
            msg = f"a token needs {MIN_TOKEN_CHARS} or more plain characters; let the server make one"
            raise InputError(msg)
        tokens.register(token)
    if tokens.active():
        return None
    if not is_loopback(host):
        msg = f"others can reach {host}, and there is no token yet; start once on 127.0.0.1 or set LUTHIER_TOKEN"
        raise InputError(msg)
    return tokens.create()


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _services(database: Database, url: str | None, cache: Path) -> Services:
    spool = cache / "spool"
    try:
        spool.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = (
            f"the folder {spool} cannot be created ({error.strerror}); set LUTHIER_CACHE_DIR to another place"
        )
        raise InputError(msg) from None
    return Services(database, spool, Orchestrator(database, url or Settings().database))


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, OverflowError) as error:
        msg = (
            f"{host}:{port} is no address to listen on ({error}); use --host 127.0.0.1 --port {DEFAULT_PORT}"
        )
        raise InputError(msg) from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except OSError as error:
        listener.close()
        msg = f"cannot listen on {host}:{port} ({error.strerror}); stop what uses it or give another --port"
        raise ServiceError(msg) from None
    return listener


def _announce(url: str, token: str | None, _database: str) -> None:
    sys.stdout.write(f"{url}\n" if token is None else f"{url}\ntoken: {token}\n")
    sys.stdout.flush()
