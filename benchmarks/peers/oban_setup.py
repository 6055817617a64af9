"""Run once in oban's environment: before Python 3.12 its one alias in newer syntax keeps it from being read.

The alias is for type checkers only; nothing that runs uses it.
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

ALIAS = "type Result[T] = Cancel | Snooze | Record | T | None"
PLAIN = "import typing\n\nResult = typing.Union[Cancel, Snooze, Record, typing.TypeVar('T'), None]"

if __name__ == "__main__" and sys.version_info < (3, 12):
    source = Path(sysconfig.get_path("purelib")) / "oban" / "job.py"
    source.write_text(source.read_text().replace(ALIAS, PLAIN))
