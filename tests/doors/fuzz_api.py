"""`python -m tests.doors.fuzz_api [--seconds N]`: REST calls that nobody thought of, one leading to the next.

Two applications share a database. Whatever one of them sends, no answer is a server's error, none shows
anything of the other one, whose rows stay as they were, and no traceback is logged.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

import schemathesis
from hypothesis import HealthCheck, Phase, settings
from hypothesis.errors import Flaky
from hypothesis.stateful import run_state_machine_as_test
from schemathesis.checks import not_a_server_error
from typing_extensions import override

from tests.doors.neighbours import (
    CALLER,
    NEIGHBOUR,
    THEIRS,
    TOKEN,
    belonging_to,
    changes_between,
    make_app,
    prepare,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

HEADERS = {"Authorization": f"Bearer {TOKEN}"}
_CHAINS_AT_ONCE = 20


@dataclass
class Findings:
    """What was answered, and what must not have been."""

    answers: Counter[int] = field(default_factory=Counter)
    shown: list[str] = field(default_factory=list)  # answers that speak of the neighbour
    logged: list[str] = field(default_factory=list)  # tracebacks
    changed: Mapping[str, set[str]] = field(default_factory=dict)  # rows of the neighbour

    @property
    def is_clean(self) -> bool:
        """Whether nothing is wrong."""
        errors = any(status >= HTTPStatus.INTERNAL_SERVER_ERROR for status in self.answers)
        return not (self.shown or self.logged or self.changed or errors)

    def note(self, response: Any, case: Any) -> None:  # noqa: ANN401 the library's own
        """Take one answer in."""
        self.answers[response.status_code] += 1
        if any(name in response.text for name in (NEIGHBOUR, THEIRS)):
            self.shown.append(f"{case.method} {case.formatted_path}: {response.text[:500]}")


class _Tracebacks(logging.Handler):
    """Collects what is logged with a traceback."""

    def __init__(self, logged: list[str]) -> None:
        super().__init__()
        self._logged = logged

    @override
    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self._logged.append(f"{record.name}: {record.getMessage()}")


def fuzz(url: str, seconds: float) -> Findings:
    """Send chains of calls for about so long."""
    found = Findings()
    before = belonging_to(NEIGHBOUR, url)
    handler = _Tracebacks(found.logged)
    logging.getLogger().addHandler(handler)
    try:
        machine = _machine(url, found)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            # What the application holds changes from chain to chain, which the library takes for a mistake in
            # its own generation: it gives up a chain whose answers have been judged already.
            with suppress(Flaky):
                run_state_machine_as_test(machine, settings=_settings())
    finally:
        logging.getLogger().removeHandler(handler)
    found.changed = changes_between(before, belonging_to(NEIGHBOUR, url))
    return found


def _machine(url: str, found: Findings) -> Any:  # noqa: ANN401 the library's own
    document = "/api/v1/openapi.json"
    interface = schemathesis.openapi.from_asgi(document, make_app(CALLER, url).asgi(), headers=HEADERS)
    base: Any = interface.as_state_machine()

    def sent_with(_self: object, _case: object) -> dict[str, object]:
        return {"headers": HEADERS}

    def noted(_self: object, response: object, case: object) -> None:
        found.note(response, case)

    def judged(_self: object, response: object, case: Any, **options: object) -> None:  # noqa: ANN401 the same
        case.validate_response(response, checks=[not_a_server_error], **options)

    hooks = {"get_call_kwargs": sent_with, "after_call": noted, "validate_response": judged}
    return type("Chain", (base,), hooks)


def _settings() -> settings:
    return settings(
        max_examples=_CHAINS_AT_ONCE,
        stateful_step_count=8,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        database=None,
    )


def main() -> int:
    """Fuzz for as long as asked for, and say what was answered."""
    parser = argparse.ArgumentParser(prog="make fuzz-api")
    parser.add_argument("--seconds", type=float, default=300.0)
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory(prefix="gandy-fuzz-api-") as folder:
        url = f"sqlite:///{Path(folder) / 'shared.db'}"
        prepare(url)
        found = fuzz(url, seconds)
    answers = ", ".join(f"{count} x {status}" for status, count in sorted(found.answers.items()))
    sys.stdout.write(f"{found.answers.total()} calls: {answers}\n")
    for what in (*found.shown, *found.logged, *found.changed):
        sys.stdout.write(f"wrong: {what}\n")
    return 0 if found.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
