"""The matrix is complete, the marks say the same, and every feature can be switched off."""

from __future__ import annotations

import pytest

from tests.matrix.switches import SWITCHES
from tests.matrix.table import marked, read_matrix
from tests.support.replacing import SOURCE, replaced


def test_every_pair_has_a_test_or_a_reason_and_not_both() -> None:
    matrix = read_matrix()
    odd = [
        f"{kind} x {name}"
        for name, feature in matrix.features.items()
        for kind in matrix.kinds
        if bool(feature.tests_of(kind)) == (kind in feature.none)
    ]

    assert odd == []


def test_nothing_else_is_named() -> None:
    matrix = read_matrix()
    named = {kind for _, kind, _ in matrix.named()}
    excused = {kind for feature in matrix.features.values() for kind in feature.none}

    assert named | excused == set(matrix.kinds)


def test_the_marks_of_the_tests_name_the_same_pairs() -> None:
    in_matrix, in_tests = read_matrix().named(), marked()

    assert in_matrix - in_tests == set(), "these tests do not carry the pair as a mark"
    assert in_tests - in_matrix == set(), "these marks are not in the matrix"


def test_every_feature_has_a_switch() -> None:
    assert list(SWITCHES) == list(read_matrix().features)


@pytest.mark.parametrize("feature", SWITCHES)
def test_every_switch_still_finds_what_it_replaces(feature: str) -> None:
    for piece in SWITCHES[feature]:
        text = (SOURCE / piece.file).read_text(encoding="utf-8")
        assert replaced(text, piece.old, piece.new, file=piece.file) != text
