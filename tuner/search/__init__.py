"""Strategies that propose Candidates."""
