"""In the model: a record must not be slower there than the default, whatever it is alone.

A Task is tuned alone, with its operands as near as its own runs leave them. In a model the kernel before it leaves
other values in the caches, and weights that several kernels share are in memory once for each way in which they are
packed. So the kernels of the tuned and of the untuned model are timed inside of their models, in turns, and a record
whose kernel is slower beyond doubt gives way to the default.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence

from compiler.pipeline import digests_of
from service.records.log import SqlTuningLog
from tuner.measure import Measured
from tuner.pairs import TIE, ratio_interval
from tuner.record import CODEGEN_EPOCH, TuningRecord
from tuner.task import RecordKey, Task
from workers.end_to_end import Compared

_LOG = logging.getLogger("luthier.jobs")


def withdraw(
    log: SqlTuningLog, tasks: Sequence[Task], untuned: Compared, tuned: Compared, model: str, job: str
) -> Collection[RecordKey]:
    """Put the default in the place of every record that is slower in the model; the keys of these records."""
    defaults = {digests_of(symbol)[0]: symbol for symbol in untuned["kernels_s"]}
    chosen = {digests_of(symbol)[0]: symbol for symbol in tuned["kernels_s"]}
    records = log.records([task.key for task in tasks])
    found = []
    for task in tasks:
        record, workload = records.get(task.key), task.workload.digest[:16]
        usual, own = defaults.get(workload), chosen.get(workload)
        if record is None or usual is None or own is None or usual == own:
            continue
        interval = ratio_interval(untuned["kernels_s"][usual], tuned["kernels_s"][own])
        if digests_of(own)[1] != record.schedule.digest[:8] or interval[0] <= 1 or interval[1] <= 1 + TIE:
            continue
        default = _default_record(log, record, digests_of(usual)[1], interval, model, job)
        if default is not None:
            found.append(default)
        else:
            _LOG.warning(
                "the record of %s is slower than the default inside of %s, but the log has no trial of the default; "
                "tune the model again with more trials",
                task.name,
                model,
            )
    log.put_records(found)
    return {record.key for record in found}


def _default_record(
    log: SqlTuningLog,
    record: TuningRecord,
    schedule: str,
    slower: tuple[float, float, float],
    model: str,
    job: str,
) -> TuningRecord | None:
    """The default's, by its newest trial; None where it has none. `slower`: how much the record is, in the model."""
    for trial in reversed(log.trials(record.key)):
        measured = trial.result
        if not isinstance(measured, Measured) or trial.codegen_epoch != CODEGEN_EPOCH:
            continue
        if not trial.schedule.digest.startswith(schedule):
            continue
        evidence = [
            {"schedule": trial.schedule.digest, "median_s": measured.median_s, "slower": [1.0, 1.0, 1.0]},
            {"schedule": record.schedule.digest, "median_s": record.measured.median_s, "slower": [*slower]},
        ]
        return TuningRecord(
            key=record.key,
            schedule=trial.schedule,
            measured=measured,
            device=trial.device,
            seed=trial.seed,
            untuned_s=measured.median_s,
            provenance={
                "stage": "in_model",
                "model": model,
                "compared": [trial.schedule.digest, record.schedule.digest],
                "evidence": [{**entry, "believed": None} for entry in evidence],
                "job": job,
            },
        )
    return None
