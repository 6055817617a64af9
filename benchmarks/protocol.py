"""How the harness talks to a contestant: one JSON object a line, on standard input and output.

Standard library only: it also runs inside the peers' own environments.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from collections.abc import Mapping


class Contestant:
    """What a contestant process can be asked; the names of public methods are the verbs of the protocol.

    A contestant offers the verbs of the cases it takes part in and leaves the others out.
    """

    def setup(self, url: str) -> None:
        """Create tables in a fresh database; asked of one process only."""
        raise NotImplementedError

    def open(self, url: str) -> None:
        """Connect and warm up, so that nothing of it is measured."""
        raise NotImplementedError

    def close(self) -> None:
        """Disconnect."""


def serve(contestant: Contestant) -> None:
    """Answer requests until standard input ends. Whatever the contestant prints goes to standard error."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    _answer(answers, {"result": "ready"})
    is_open = False
    for line in sys.stdin:
        request = json.loads(line)
        answer = _perform(contestant, request)
        is_open |= request["verb"] == "open" and "error" not in answer
        _answer(answers, answer)
    if is_open:
        contestant.close()


def _perform(contestant: Contestant, request: Mapping[str, Any]) -> Mapping[str, object]:
    try:
        verb = getattr(contestant, request["verb"])
        return {"result": verb(**request.get("arguments", {}))}
    except Exception:  # noqa: BLE001 - the harness gets the traceback and stops the case
        return {"error": traceback.format_exc()}


def _answer(answers: TextIO, message: Mapping[str, object]) -> None:
    answers.write(json.dumps(message) + "\n")
