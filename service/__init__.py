"""FastAPI over the tuning log."""
