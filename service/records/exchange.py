"""The tuning log as JSON lines: one object a line, in this order.

    line ::= {"type": "luthier-log", "version": 1}          first line
           | {"type": "target", ...}                         fields of a Target
           | {"type": "workload", "body": ...}               canonical form of a Workload
           | {"type": "record", "key": ..., "schedule": ..., "measured": ...}
           | {"type": "trial", "key": ..., "schedule": ..., "result": ...}

Importing merges: a record is kept where it is the first or faster one of its key, a trial where it is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from compiler.errors import InputError
from compiler.target import target_from_json, target_json
from compiler.workload.ir import workload_from_json
from service import json_text
from service.records.convert import plain_text, record_from_json, record_json, trial_from_json, trial_json
from service.records.repository import RecordRepository

VERSION = 1
MAX_LINE_CHARS = 4 << 20
_HEADER = {"type": "luthier-log", "version": VERSION}
_MALFORMED = (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError)


def export_lines(repository: RecordRepository, *, trials: bool) -> Iterator[str]:
    """The whole log, streamed."""
    yield json_text.dump(_HEADER)
    for target in repository.targets():
        yield json_text.dump({"type": "target", "body": json_text.parse(target.body)})
    for body in repository.workloads():
        yield json_text.dump({"type": "workload", "body": json_text.parse(body)})
    for record in repository.all_records():
        yield json_text.dump({"type": "record", **record_json(record)})
    if trials:
        for trial in repository.all_trials():
            yield json_text.dump({"type": "trial", **trial_json(trial)})


def import_lines(repository: RecordRepository, lines: Iterable[str]) -> dict[str, int]:
    """Merge lines; counts of "lines" read, and of new "records" and "trials". Raises InputError at the first bad one.

    The caller's transaction makes it all or nothing.
    """
    counts = {"lines": 0, "records": 0, "trials": 0}
    repository.lock_keys()
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_LINE_CHARS:
            msg = f"line {number} has more than {MAX_LINE_CHARS} characters; nothing was imported"
            raise InputError(msg)
        if number == 1:
            _check_header(line)
        elif line.strip():
            kind, added = _import_line(repository, line, number)
            if kind in counts:
                counts[kind] += added
        counts["lines"] = number
    if not counts["lines"]:
        msg = "the import is empty; give a file that `luthier log export` wrote"
        raise InputError(msg)
    return counts


def _check_header(line: str) -> None:
    try:
        header = json_text.parse(line)
    except ValueError:
        header = None
    if not isinstance(header, dict) or header.get("type") != _HEADER["type"]:
        msg = "line 1 is not the header of a tuning log; give a file that `luthier log export` wrote"
        raise InputError(msg)
    if header.get("version") != VERSION:
        msg = f"line 1 says version {header.get('version')!r}, this Luthier reads {VERSION}; use the same Luthier"
        raise InputError(msg)


def _import_line(repository: RecordRepository, line: str, number: int) -> tuple[str, int]:
    try:
        data = json_text.parse(line)
        kind = data["type"]
        write = _IMPORTERS[kind](data)
    except _MALFORMED as error:
        why = f"{type(error).__name__}: {error}"[:200]
        msg = f"line {number} is not valid ({why}); nothing was imported, repair or remove that line"
        raise InputError(msg) from None
    return f"{kind}s", write(repository)


_Write = Callable[[RecordRepository], int]


def _target(data: Any) -> _Write:
    target = target_from_json(data["body"])
    plain_text(target.name, 100)
    json_text.dump(target_json(target))

    def write(repository: RecordRepository) -> int:
        repository.put_target(target)
        return 0

    return write


def _workload(data: Any) -> _Write:
    workload = workload_from_json(data["body"])
    _ = workload.digest  # forces every field into the canonical form, where a wrong one fails

    def write(repository: RecordRepository) -> int:
        repository.put_workloads([workload])
        return 0

    return write


def _record(data: Any) -> _Write:
    record = record_from_json(data)
    json_text.dump(record_json(record))  # must be written as strict JSON again
    return lambda repository: repository.put_records([record])


def _trial(data: Any) -> _Write:
    trial = trial_from_json(data)
    json_text.dump(trial_json(trial))
    return lambda repository: repository.add_trials([trial], None)


_IMPORTERS: dict[str, Callable[[Any], _Write]] = {
    "target": _target,
    "workload": _workload,
    "record": _record,
    "trial": _trial,
}
