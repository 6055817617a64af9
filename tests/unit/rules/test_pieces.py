"""When a day of history gets a further piece, and when runs go into it."""

from __future__ import annotations

from datetime import date, timedelta

from gandy.rules.pieces import Piece, PieceStep, next_steps, oversized, piece_limit

TODAY = date(2026, 1, 5)
LIMIT = 1_000


def piece(number: int = 0, size: int = 0, *, ahead: int = 0, is_current: bool = True) -> Piece:
    return Piece(TODAY + timedelta(days=ahead), number, size, is_current)


def test_a_day_whose_piece_is_small_needs_nothing() -> None:
    assert next_steps([piece(size=LIMIT - 1), piece(ahead=1)], LIMIT, TODAY) == []


def test_a_piece_that_has_its_size_is_followed_by_another_of_its_day() -> None:
    pieces = [piece(size=LIMIT), piece(size=5, ahead=1), piece(number=3, size=LIMIT, ahead=2)]

    assert next_steps(pieces, LIMIT, TODAY) == [
        PieceStep(TODAY, 1, is_created=False),
        PieceStep(TODAY + timedelta(days=2), 4, is_created=False),
    ]


def test_runs_go_into_a_piece_in_the_cycle_after_its_creation() -> None:
    pieces = [piece(size=LIMIT), piece(number=1, is_current=False)]

    assert next_steps(pieces, LIMIT, TODAY) == [PieceStep(TODAY, 1, is_created=True)]


def test_a_closed_piece_and_a_day_that_is_over_need_nothing() -> None:
    closed = piece(number=1, size=9 * LIMIT, is_current=False)

    assert next_steps([closed, piece(number=2)], LIMIT, TODAY) == []
    assert next_steps([piece(size=9 * LIMIT, ahead=-1)], LIMIT, TODAY) == []


def test_numbers_go_on_after_pieces_that_were_dropped() -> None:
    assert next_steps([piece(number=7, size=LIMIT)], LIMIT, TODAY) == [PieceStep(TODAY, 8, is_created=False)]


def test_a_current_piece_without_partitions_is_created_again() -> None:
    lost = Piece(TODAY, 3, 0, is_current=True, is_there=False)

    assert next_steps([piece(number=2, is_current=False), lost], LIMIT, TODAY) == [
        PieceStep(TODAY, 3, is_created=False)
    ]


def test_the_last_number_stays() -> None:
    assert next_steps([piece(number=32_767, size=9 * LIMIT)], LIMIT, TODAY) == []


def test_the_size_doubles_with_the_number_of_further_pieces() -> None:
    first = [piece(ahead=ahead) for ahead in range(34)]
    further = [piece(number=number) for number in range(1, 70)]

    assert piece_limit(LIMIT, first) == LIMIT
    assert piece_limit(LIMIT, [*first, *further[:31]]) == LIMIT
    assert piece_limit(LIMIT, [*first, *further[:32]]) == 2 * LIMIT
    assert piece_limit(LIMIT, [*first, *further[:64]]) == 4 * LIMIT


def test_a_current_piece_of_twice_its_size_is_told() -> None:
    late = piece(size=2 * LIMIT + 1)
    closed = piece(number=1, size=9 * LIMIT, ahead=1, is_current=False)

    assert oversized([late, closed, piece(number=2, size=2 * LIMIT, ahead=1)], LIMIT) == [late]


def test_a_piece_is_a_table_of_runs_and_one_of_lines() -> None:
    assert piece().leaves == ("history_20260105", "log_20260105")
    assert piece(number=12).leaves == ("history_20260105_12", "log_20260105_12")
