"""What a database said, whichever layer brings the news."""

from __future__ import annotations

import sqlite3


def said(error: Exception) -> str:
    """The driver's own words, on one line."""
    return " ".join(str(original(error)).split())


def is_interrupted(error: Exception) -> bool:
    """Whether SQLite broke a statement off because it took too long."""
    return getattr(original(error), "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT


def unexpected(error: Exception) -> str:
    """An error that no layer knows: its type says more than its words."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def original(error: Exception) -> BaseException:
    """The driver's error, out of what SQLAlchemy wrapped around it."""
    wrapped = getattr(error, "orig", None)
    return wrapped if isinstance(wrapped, BaseException) else error
