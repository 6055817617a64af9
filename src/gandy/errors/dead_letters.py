"""What can be wrong with what a person asks of a dead letter."""

from __future__ import annotations

from gandy.errors.base import GandyError


class DeadLetterNotFoundError(GandyError, LookupError):
    """No dead letter has this id."""

    def __init__(self, letter_id: int) -> None:
        super().__init__(
            f"there is no dead letter {letter_id}; `gandy dead-letters list` shows what there is"
        )
        self.letter_id = letter_id
