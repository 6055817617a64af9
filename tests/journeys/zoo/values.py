"""What no exception, output, line or number should be, and is."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any, Final

SURROGATE: Final = "caf\udce9"  # what os.listdir gives for a name in Latin-1
NUL: Final = "nul \x00 inside"
LONG: Final = 2_000_000

TEXTS: Final = (
    SURROGATE,
    NUL,
    "\x00",
    "\ud800\udfff" * 10,
    "",
    "long " * (LONG // 5),
    "\u202e\u2066 bidi \x1b[31m and escapes \r\n\x07",
    "{0} %s %(name)s ${x}",
)
NUMBERS: Final[tuple[tuple[Any, Any], ...]] = (
    (10**25, 10**30),
    (0.5, 1),
    (-1, -5),
    (math.nan, math.inf),
    (2**63, 2**63),
    (2**63 - 1, None),
    (True, False),
    ("three", object()),
    (None, None),
    (1, 0),
)
DELAYS: Final[tuple[Any, ...]] = (
    timedelta.max,
    timedelta.min,
    timedelta(days=9000 * 365),
    timedelta(microseconds=1),
    timedelta(seconds=-1),
    0,
    -1.5,
    1e-9,
)


def _cycle() -> object:
    cycle: list[object] = []
    cycle.append(cycle)
    return cycle


def _deep(depth: int = 100_000) -> object:
    deep: object = 1
    for _ in range(depth):
        deep = [deep]
    return deep


class Unreadable:
    """Raises whatever it is asked."""

    def __repr__(self) -> str:
        raise KeyboardInterrupt

    __str__ = __repr__


def outputs() -> tuple[object, ...]:
    """Outputs that a database, an encoder or a limit does not take."""
    return (
        *TEXTS,
        {"key \udce9": [NUL, {"\x00": SURROGATE}]},
        math.nan,
        -math.inf,
        10**5000,
        2**70,
        b"\xff\xfe",
        {1, 2},
        object(),
        Unreadable(),
        _cycle(),
        _deep(),
        {Unreadable: 1},
        (number for number in range(3)),
        ["x" * 1000] * 5000,
    )
