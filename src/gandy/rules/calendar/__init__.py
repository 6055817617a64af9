"""Instants: what a schedule, a zone and an exclusion make of the calendar."""

from __future__ import annotations
