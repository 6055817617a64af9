"""PostgreSQL: a search path under which other roles could have this one run their code."""

from __future__ import annotations

import re

_CATALOGUE = "pg_catalog"
# A name in quotes, in which two quotes are one, or a plain one.
_NAME = re.compile(r'"((?:[^"]|"")*)"|([^\s,"]+)')


def hides_catalogue(path: str) -> bool:
    """Whether another schema is searched before PostgreSQL's own; where it is not listed, it comes first."""
    names = [bare.lower() if bare else quoted for quoted, bare in _NAME.findall(path)]
    return _CATALOGUE in names[1:]
