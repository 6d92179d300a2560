"""TuningJobs: endpoints, schemas, operations, repository."""
