"""Every mutant still finds the piece that it replaces."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest

from tests.lifecycle.mutants.table import MUTANTS, SUITE
from tests.support.replacing import ROOT, SOURCE

if TYPE_CHECKING:
    from tests.lifecycle.mutants.mutant import Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.file}: {mutant.breaks}")
def test_the_piece_is_there_once_and_the_mistake_is_code(mutant: Mutant) -> None:
    text = (SOURCE / mutant.path).read_text(encoding="utf-8")

    broken = mutant.applied_to(text)

    assert ast.dump(ast.parse(broken)) != ast.dump(ast.parse(text))


def test_the_tests_that_should_notice_are_there() -> None:
    named = {*SUITE, *(name for mutant in MUTANTS for name in mutant.tests)}

    assert [name for name in sorted(named) if not (ROOT / "tests" / "lifecycle" / name).exists()] == []
