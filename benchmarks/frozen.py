"""What Gandy is compared with does not change by accident: the SHA-256 of every file that makes it up.

`python -m benchmarks.frozen` writes the list again. Do so only after a change that was meant, and measure
again what changed: figures from before and after it do not belong in one table.
"""

from __future__ import annotations

import hashlib
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.ceilings.gandy_schema import MIGRATIONS, RUN_ROWS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parent
LISTING: Final = HERE / "frozen.toml"
#: The peers with their settings and pins, and direct SQL.
FOLDERS: Final = (HERE / "peers", HERE / "ceilings")
ENDINGS: Final = {".py", ".sql", ".txt"}
HEAD: Final = """\
# The SHA-256 of every file that says what Gandy is compared with: the peers' pins and settings, the direct
# SQL, and the migrations that make t3m's tables. A test holds it, so that no contestant gets slower while
# Gandy gets faster.
#
# To change one on purpose: change the file; say in the commit why (a newer version, a better setting that
# `python -m benchmarks.sweep NAME` found, a fault of the harness); run `python -m benchmarks.frozen`; measure
# the cases in which the contestant takes part again, all in one run.

[sha256]
"""


def found() -> dict[str, str]:
    """Every frozen file as it is, by its path in the repository."""
    return {
        path.relative_to(ROOT).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(_files())
    }


def listed() -> Mapping[str, str]:
    """Every frozen file as it was when the list was written."""
    digests: dict[str, str] = tomllib.loads(LISTING.read_text(encoding="utf-8"))["sha256"]
    return digests


def _files() -> Iterator[Path]:
    for folder in FOLDERS:
        yield from (path for path in folder.iterdir() if path.suffix in ENDINGS)
    for migration in MIGRATIONS.glob("*.sql"):
        if int(migration.name.partition("_")[0]) <= RUN_ROWS:
            yield migration


def main() -> None:
    """Write the list."""
    lines = (f'"{path}" = "{digest}"\n' for path, digest in found().items())
    LISTING.write_text(HEAD + "".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
