"""TuningRecords: endpoints, schemas, operations, repository."""
