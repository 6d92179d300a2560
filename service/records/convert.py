"""Records, trials and keys as rows and as JSON, and what makes a record worth serving."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from compiler.schedule.schedule import schedule_from_json, schedule_json
from compiler.target import target_from_json
from compiler.workload.ir import workload_from_json
from service import json_text
from service.db.models import KeyRow, RecordRow, TrialRow
from tuner.measure import Measured, MeasureFailed, result_from_json, result_json
from tuner.record import Relative, Trial, TuningRecord
from tuner.task import RecordKey, Task

_HEX = frozenset("0123456789abcdef")


def is_digest(text: object) -> bool:
    """Whether it is 64 hexadecimal digits."""
    return isinstance(text, str) and len(text) == 64 and set(text) <= _HEX


def is_verified(record: TuningRecord) -> bool:
    """Whether it may be served: finite times above zero, and an error within what its key promises."""
    samples = record.measured.samples_s
    timed = bool(samples) and all(math.isfinite(s) and s > 0 for s in samples)
    error = record.measured.error
    return timed and math.isfinite(error) and 0 <= error <= float(record.key.error_class)


def key_digest(key: RecordKey) -> str:
    """64 hexadecimal digits over every field."""
    return json_text.digest(asdict(key))


def key_json(key: RecordKey) -> dict[str, Any]:
    """JSON form of a key."""
    return asdict(key)


def key_from_json(data: Any) -> RecordKey:
    """Inverse of `key_json`; raises ValueError, KeyError or TypeError on anything else."""
    key = RecordKey(
        workload=data["workload"],
        target=data["target"],
        threads=_integer(data["threads"], 31),
        error_class=str(data["error_class"]),
        protocol=_integer(data["protocol"], 31),
        language=_integer(data["language"], 31),
    )
    if not (is_digest(key.workload) and is_digest(key.target)):
        msg = "workload and target are digests of 64 hexadecimal digits"
        raise ValueError(msg)
    if not (math.isfinite(float(key.error_class)) and f"{float(key.error_class):.0e}" == key.error_class):
        msg = f"error_class {key.error_class!r} is not of the form 2e-05"
        raise ValueError(msg)
    return key


def key_of(row: KeyRow) -> RecordKey:
    """The key that a row holds."""
    return RecordKey(row.workload, row.target, row.threads, row.error_class, row.protocol, row.language)


def relative_of(key: RecordKey, schedule: str, workload: str, target: str) -> Relative:
    """A record as a seed; the texts are JSON. Raises ValueError, KeyError or TypeError on what is not."""
    task = Task(
        workload_from_json(json_text.parse(workload)),
        target_from_json(json_text.parse(target)),
        key.threads,
        1,
        "",
        float(key.error_class),
    )
    return Relative(task, schedule_from_json(json_text.parse(schedule)))


def trial_of(row: TrialRow, key: RecordKey) -> Trial:
    """The trial that a row holds."""
    return Trial(
        key=key,
        schedule=schedule_from_json(json_text.parse(row.schedule)),
        result=result_from_json(json_text.parse(row.result)),
        device=row.device,
        seed=row.seed,
        codegen_epoch=row.codegen_epoch,
    )


def trial_values(trial: Trial) -> dict[str, Any]:
    """Columns of a trial, without its key, job and time."""
    return {
        "schedule_digest": trial.schedule.digest,
        "schedule": json_text.dump(schedule_json(trial.schedule)),
        "result": json_text.dump(_finite(result_json(trial.result))),
        "failed": isinstance(trial.result, MeasureFailed),
        "device": trial.device,
        "seed": trial.seed,
        "codegen_epoch": trial.codegen_epoch,
    }


def record_of(row: RecordRow, key: RecordKey) -> TuningRecord:
    """The record that a row holds."""
    measured = result_from_json(json_text.parse(row.evidence))
    if not isinstance(measured, Measured):
        msg = "a record without a measurement"
        raise TypeError(msg)
    return TuningRecord(
        key=key,
        schedule=schedule_from_json(json_text.parse(row.schedule)),
        measured=measured,
        device=row.device,
        seed=row.seed,
        codegen_epoch=row.codegen_epoch,
        untuned_s=row.untuned_s,
        provenance=json_text.parse(row.provenance),
    )


def record_values(record: TuningRecord) -> dict[str, Any]:
    """Columns of a record, without its key and time."""
    return {
        "schedule": json_text.dump(schedule_json(record.schedule)),
        "evidence": json_text.dump(result_json(record.measured)),
        "median_s": record.measured.median_s,
        "untuned_s": record.untuned_s,
        "device": record.device,
        "seed": record.seed,
        "codegen_epoch": record.codegen_epoch,
        "provenance": json_text.dump(record.provenance),
    }


def record_json(record: TuningRecord) -> dict[str, Any]:
    """JSON form of a record, for people, programs and export."""
    return {
        "key": key_json(record.key),
        "schedule": schedule_json(record.schedule),
        "measured": result_json(record.measured),
        "device": record.device,
        "seed": record.seed,
        "codegen_epoch": record.codegen_epoch,
        "untuned_s": record.untuned_s,
        "provenance": record.provenance,
    }


def record_from_json(data: Any) -> TuningRecord:
    """Inverse of `record_json`; raises ValueError, KeyError or TypeError on anything else."""
    measured = result_from_json(data["measured"])
    if not isinstance(measured, Measured):
        msg = "a record needs a measurement"
        raise ValueError(msg)
    record = TuningRecord(
        key=key_from_json(data["key"]),
        schedule=schedule_from_json(data["schedule"]),
        measured=measured,
        device=plain_text(data["device"], 200),
        seed=_integer(data["seed"]),
        codegen_epoch=_integer(data["codegen_epoch"], 31),
        untuned_s=float(data["untuned_s"]),
        provenance=dict(data["provenance"]),
    )
    compared = record.provenance.get("compared", [])
    if not isinstance(compared, list) or not all(isinstance(digest, str) for digest in compared):
        msg = "provenance.compared is a list of digests"
        raise ValueError(msg)
    if not is_verified(record) or not (math.isfinite(record.untuned_s) and record.untuned_s >= 0):
        msg = "its times or its error are not those of a verified record"
        raise ValueError(msg)
    return record


def trial_json(trial: Trial) -> dict[str, Any]:
    """JSON form of a trial."""
    return {
        "key": key_json(trial.key),
        "schedule": schedule_json(trial.schedule),
        "result": _finite(result_json(trial.result)),
        "device": trial.device,
        "seed": trial.seed,
        "codegen_epoch": trial.codegen_epoch,
    }


def trial_from_json(data: Any) -> Trial:
    """Inverse of `trial_json`; raises ValueError, KeyError or TypeError on anything else."""
    return Trial(
        key=key_from_json(data["key"]),
        schedule=schedule_from_json(data["schedule"]),
        result=result_from_json(data["result"]),
        device=plain_text(data["device"], 200),
        seed=_integer(data["seed"]),
        codegen_epoch=_integer(data["codegen_epoch"], 31),
    )


def plain_text(value: Any, limit: int) -> str:
    """A text that every database takes; raises ValueError on anything else."""
    if not isinstance(value, str) or len(value) > limit or not value.isprintable():
        msg = f"{str(value)[:50]!r} is not a plain text of at most {limit} characters"
        raise ValueError(msg)
    return value


def _integer(value: Any, bits: int = 63) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**bits) <= value < 2**bits:
        msg = f"{str(value)[:50]} is not an integer of {bits + 1} bits"
        raise ValueError(msg)
    return value


def _finite(result: dict[str, Any]) -> dict[str, Any]:
    """JSON knows no NaN: an error that is not finite is written as a string that float() reads back."""
    error = result.get("error")
    return result if error is None or math.isfinite(error) else {**result, "error": str(error)}
