"""The lifecycle's persistent state, in its own tables in the swept database."""

from __future__ import annotations
