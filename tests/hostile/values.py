"""The table of hostile values, and how an answer to one of them is judged."""

from __future__ import annotations

import asyncio
import json
import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, NoReturn

from gandy import NO_TIMEOUT, Gandy
from gandy.errors import GandyError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

LONGEST_MESSAGE: Final = 1_000


class Unspeakable:
    """An object that cannot even be written into a message."""

    def __repr__(self) -> NoReturn:
        raise RuntimeError("no")


@dataclass(frozen=True, slots=True)
class Hostile:
    """One value that somebody may pass, by mistake or on purpose."""

    kind: str
    label: str
    value: Any


def _durations() -> Iterator[tuple[str, object]]:
    yield "the longest timedelta", timedelta.max
    yield "the shortest timedelta", timedelta.min
    yield "ten thousand years", timedelta(days=3_652_500)
    yield "nine thousand years", timedelta(days=9_000 * 365)
    yield "a century and a day", timedelta(days=36_501)
    yield "a century", timedelta(days=36_500)
    yield "a decade and a moment", timedelta(days=3_650, microseconds=1)
    yield "a decade", timedelta(days=3_650)
    yield "a moment", timedelta(microseconds=1)
    yield "no time", timedelta(0)
    yield "a negative moment", timedelta(microseconds=-1)
    yield "yesterday", timedelta(days=-1)
    yield "no timeout", NO_TIMEOUT


def _numbers() -> Iterator[tuple[str, object]]:
    yield "minus one", -1
    yield "zero", 0
    yield "one", 1
    yield "32", 32
    yield "2**31 - 1", 2**31 - 1
    yield "2**31", 2**31
    yield "2**63 - 1", 2**63 - 1
    yield "2**63", 2**63
    yield "-2**63 - 1", -(2**63) - 1
    yield "10**25", 10**25
    yield "10**400", 10**400
    yield "a half", 0.5
    yield "one as a float", 1.0
    yield "negative zero", -0.0
    yield "1e300", 1e300
    yield "NaN", math.nan
    yield "infinity", math.inf
    yield "negative infinity", -math.inf
    yield "true", True
    yield "false", False
    yield "a decimal", Decimal(1)
    yield "a decimal NaN", Decimal("NaN")
    yield "a fraction", Fraction(1, 3)
    yield "a complex number", 1 + 2j


def _texts() -> Iterator[tuple[str, object]]:
    yield "empty text", ""
    yield "a space", " "
    yield "a tab", "\t"
    yield "a line break inside", "a\nb"
    yield "a carriage return", "a\rb"
    yield "NUL", "a\x00b"
    yield "an escape sequence", "\x1b[31mred"
    yield "DEL", "\x7f"
    yield "a lone surrogate", "\ud800"
    yield "an undecodable byte", "caf\udce9"
    yield "a direction mark", "a\u202eb"
    yield "a space before", " a"
    yield "a space after", "a "
    yield "200 characters", "x" * 200
    yield "201 characters", "x" * 201
    yield "100,000 characters", "x" * 100_000
    yield "five thousand digits", "9" * 5_000
    yield "a number as text", "5"
    yield "a duration as text", "5m"
    yield "a long duration as text", "99999999999999999999w"
    yield "nan as text", "nan"
    yield "none as text", "none"
    yield "a statement", "'; DROP TABLE work_queue; --"
    yield "a path", "../../etc/passwd"
    yield "a placeholder", "%(owner)s %s {0} :owner"
    yield "an option", "--yes"
    yield "an emoji", "\N{SNOWMAN}"


def _others() -> Iterator[tuple[str, object]]:
    yield "bytes", b"a"
    yield "a list", [1]
    yield "a mapping", {"a": 1}
    yield "an empty tuple", ()
    yield "a set", {1}
    yield "an object", object()
    yield "an unspeakable object", Unspeakable()
    yield "a class", int
    yield "a function", print
    yield "an ellipsis", ...


def _instants() -> Iterator[tuple[str, object]]:
    yield "the last instant", datetime.max.replace(tzinfo=UTC)
    yield "past the last instant", datetime.max.replace(tzinfo=timezone(timedelta(hours=-14)))
    yield "the first instant", datetime.min.replace(tzinfo=UTC)
    yield "before the first instant", datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))
    yield "an instant without a zone", datetime(2030, 1, 1)  # noqa: DTZ001 that is the point
    yield "a date", date(2030, 1, 1)


HOSTILE: Final = tuple(
    Hostile(kind, label, value)
    for kind, values in (
        ("duration", _durations()),
        ("number", _numbers()),
        ("text", _texts()),
        ("other", _others()),
        ("instant", _instants()),
    )
    for label, value in values
)

#: Where a message calls an option by another word than the parameter.
CALLED: Final = {
    "external_id": ("its id", "external_id"),
    "name": ("its name", "its id"),
    "timezone": ("time zone",),
    **dict.fromkeys(("weeks", "days", "hours", "minutes", "seconds"), ("every",)),
}


def as_json(value: object) -> str | None:
    """Write a value as the body of a request could hold it; None where JSON has no form for it."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    try:
        return json.dumps(value)
    except (TypeError, ValueError):
        return None


def as_text(value: object) -> str | None:
    """Write a value as a person would type it; None where nobody could."""
    if isinstance(value, timedelta):
        seconds = value // timedelta(seconds=1)
        return f"{seconds}s" if seconds else f"{value.microseconds}us"
    if isinstance(value, str):
        return None if "\x00" in value else value  # no argument and no variable can hold NUL
    if isinstance(value, int | float | Decimal | Fraction) and value != 10**400:
        return str(value)
    return None


def is_named(option: str, said: str) -> bool:
    """Tell whether a message says which option it is about."""
    return any(word in said for word in CALLED.get(option, (option,)))


class Judge:
    """Keeps what every call came to, and what was wrong with its answer, until the end of a test."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def call(self, option: str, hostile: Hostile, call: Callable[[Any], object]) -> bool:
        """Make a call; it is accepted, or refused with an error of ours that names the option."""
        try:
            call(hostile.value)
        except Exception as error:  # noqa: BLE001 every other class is a problem, too
            self._judge(option, hostile, error)
            return False
        return True

    async def wait(self, option: str, hostile: Hostile, call: Callable[[Any], Awaitable[object]]) -> bool:
        """Await a call, judged in the same way."""
        try:
            await call(hostile.value)
        except Exception as error:  # noqa: BLE001 the same
            self._judge(option, hostile, error)
            return False
        return True

    def expect(self, option: str, hostile: Hostile, *, is_accepted: bool, should_be: bool) -> None:
        """Note where a door answers otherwise than the others."""
        if is_accepted != should_be:
            self.note(option, hostile, "accepted here only" if is_accepted else "refused here only")

    def note(self, option: str, hostile: Hostile | str, problem: str) -> None:
        """Keep a problem, in characters that every terminal can show."""
        label = hostile if isinstance(hostile, str) else hostile.label
        self.problems.append(f"{option} = {label}: {ascii(problem)[:200]}")

    def close(self) -> None:
        """Fail with everything that was found."""
        assert not self.problems, "\n".join([f"{len(self.problems)} problems", *self.problems[:30]])

    def _judge(self, option: str, hostile: Hostile, error: Exception) -> None:
        said = str(error)
        if not isinstance(error, GandyError):
            self.note(option, hostile, f"a traceback: {type(error).__name__}: {said}")
        elif not said.isascii() and any("\ud800" <= character <= "\udfff" for character in said):
            self.note(option, hostile, f"a message that no terminal can show: {said}")
        elif not isinstance(error, LookupError) and not is_named(option, said):
            self.note(option, hostile, f"the option is not named: {said}")
        elif len(said) > LONGEST_MESSAGE:
            self.note(option, hostile, f"a message of {len(said)} characters")


async def innocent(number: int) -> int:
    """A job that has done nothing to anybody."""
    return number + 1


def make_app(url: str, **settings: Any) -> Gandy:  # noqa: ANN401 any section of the settings
    """Make an application with an innocent train, a group and three manifests."""
    app = Gandy("victim", url, **settings)
    app.train(innocent)
    app.group("calm")
    parent = app.schedule("kept", innocent, 1, group="calm")
    parent.then("follower", innocent, 2)
    parent.then("sleeper", innocent, 3, dormant=True)
    return app


async def still_works(app: Gandy) -> None:
    """Run what is ready to its end, an innocent job among it."""
    job = await app.enqueue(innocent, 41)
    await app.work(asyncio.Event(), until_idle=True)
    assert await job.result(timeout=30) == 42
