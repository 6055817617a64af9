"""Run once in django-ox's environment: before Python 3.12 its type parameters keep it from being read.

They are for type checkers only; nothing that runs uses them.
"""

from __future__ import annotations

import re
import sys
import sysconfig
from pathlib import Path

PARAMETERS = re.compile(r"^(\s*(?:async )?(?:def|class) \w+)\[[^\]]*\]", re.MULTILINE)
ALIAS = re.compile(r"^type (\w+) = .*?^\]$", re.MULTILINE | re.DOTALL)
FUTURE = "from __future__ import annotations\n"
FIRST_IMPORT = re.compile(r"^(?:import|from) ", re.MULTILINE)
NAMES = "import typing\n\nP, R, T = typing.ParamSpec('P'), typing.TypeVar('R'), typing.TypeVar('T')\n"


def plain(source: str) -> str:
    """The same module without the newer syntax."""
    plainer = ALIAS.sub(r"\1 = typing.Any", PARAMETERS.sub(r"\1", source))
    if plainer == source:
        return source
    without = plainer.replace(FUTURE, "", 1)
    place = FIRST_IMPORT.search(without)
    start = place.start() if place else len(without)
    return without[:start] + FUTURE + NAMES + without[start:]


if __name__ == "__main__" and sys.version_info < (3, 12):
    for module in (Path(sysconfig.get_path("purelib")) / "django_ox").rglob("*.py"):
        module.write_text(plain(module.read_text()))
