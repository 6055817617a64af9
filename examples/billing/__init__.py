"""Invoices on a schedule."""

from __future__ import annotations
