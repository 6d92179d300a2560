"""The one place that knows tables and sessions."""
