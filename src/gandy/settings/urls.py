"""Database URLs: which ones there are, and how one is shown without its password."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote

_SQLITE = "sqlite:///"
_MASK = "***"
_PASSWORD_PARAMETER = re.compile(r"(password=)[^&\s]*", re.IGNORECASE)
#: Up to the colon after the user's name; the scheme may be malformed.
_BEFORE_PASSWORD = re.compile(r"(?:[^:/@]*:?//)?+[^:]*:")


def mask_url(url: str) -> str:
    """Hide the passwords in a URL, also in one that is malformed: rather too much than a part of it."""
    masked = _PASSWORD_PARAMETER.sub(rf"\1{_MASK}", url)
    user_and_password, at, rest = masked.rpartition("@")
    before = _BEFORE_PASSWORD.match(user_and_password)
    if not at or before is None:
        return masked
    return f"{before.group()}{_MASK}@{rest}"


def supports_notify(url: str) -> bool:
    """Whether the database can wake others by LISTEN and NOTIFY."""
    return not url.startswith(_SQLITE)


def anchor_sqlite_url(url: str, directory: Path) -> str:
    """Make the path of an SQLite file absolute, seen from a folder; leave every other URL alone."""
    path, question_mark, parameters = url.removeprefix(_SQLITE).partition("?")
    if not url.startswith(_SQLITE) or path == ":memory:" or Path(path).is_absolute():
        return url
    return f"{_SQLITE}{quote(str(directory))}/{path}{question_mark}{parameters}"
