"""Spikes kept runnable: the measurements behind decisions."""
