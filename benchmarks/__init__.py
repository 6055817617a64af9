"""Benchmarks of Gandy: its own PostgreSQL, direct-SQL ceilings, peers, ratios paired in time."""
