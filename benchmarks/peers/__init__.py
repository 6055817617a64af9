"""Peers, each a contestant process in an environment of its own."""
