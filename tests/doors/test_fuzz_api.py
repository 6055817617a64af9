"""The short form of `make fuzz-api`, and the judge itself."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.doors.fuzz_api import Findings, fuzz
from tests.doors.neighbours import NEIGHBOUR

pytestmark = pytest.mark.timeout(300)


def test_no_chain_of_calls_fails_or_reaches_the_neighbour(shared_url: str) -> None:
    found = fuzz(shared_url, seconds=1)

    assert found.answers.total() > 20
    assert found.is_clean, found


@pytest.mark.parametrize(
    ("status", "text", "is_clean"),
    [(200, "{}", True), (404, "{}", True), (500, "{}", False), (200, f'{{"owner": "{NEIGHBOUR}"}}', False)],
)
def test_the_judge_notices_errors_and_the_neighbour(status: int, text: str, *, is_clean: bool) -> None:
    found = Findings()

    found.note(
        SimpleNamespace(status_code=status, text=text), SimpleNamespace(method="GET", formatted_path="/runs")
    )

    assert found.is_clean is is_clean


def test_the_judge_notices_tracebacks_and_changed_rows() -> None:
    assert not Findings(logged=["gandy: it failed"]).is_clean
    assert not Findings(changed={"metadata": {"7"}}).is_clean
