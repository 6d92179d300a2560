"""The process that runs one job for the server: `python -m service.jobs.child`.

{"database": URL, "job": id} comes on stdin, so that no password shows in a list of processes. The process ends by
itself, with the job queued again, on SIGTERM and when the server that started it is gone.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading

from compiler.errors import DatabaseError, LuthierError
from service import json_text
from service.db.upgrade import open_database
from service.jobs.ledger import JobLedger
from service.jobs.recorder import Stop
from service.jobs.run import run_claim

EXIT_NO_DATABASE = 3
_LOG = logging.getLogger("luthier.jobs")


def main() -> int:
    """Run the job that stdin names; 0 where how it ended is written down."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    server = os.getppid()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the server decides
    order = json_text.parse(sys.stdin.read())

    def interrupted() -> Stop | None:
        return Stop.RELEASE if stop.is_set() or os.getppid() != server else None

    try:
        database = open_database(order["database"])
    except DatabaseError as error:
        _LOG.error("job %s cannot start: %s", order["job"], error)
        return EXIT_NO_DATABASE
    try:
        claim = JobLedger(database).claim(order["job"])
        if claim is not None:
            run_claim(database, claim, interrupted=interrupted)
    except LuthierError as error:
        _LOG.warning("job %s: %s", order["job"], error)
    finally:
        database.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
