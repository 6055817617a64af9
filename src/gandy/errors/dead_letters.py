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


class RequeueInputConflictError(GandyError):
    """A letter is to run with an edited input while an entry with another input waits."""

    def __init__(self, letter_id: int, manifest: str, *, entry_id: int) -> None:
        super().__init__(
            f"dead letter {letter_id}: manifest {manifest!r} already waits in the queue as entry {entry_id} "
            f"with another input; let it run, or cancel it first: gandy queue cancel {entry_id}"
        )
        self.letter_id = letter_id
        self.manifest = manifest
        self.entry_id = entry_id
