"""The TuningReport, and the page that shows it."""
