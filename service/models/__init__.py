"""Uploaded Models: endpoints, schemas, operations, repository."""
