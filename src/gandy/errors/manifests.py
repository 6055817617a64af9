"""What can be wrong with a manifest or a group that was asked for."""

from __future__ import annotations

from gandy.errors.base import GandyError


class ManifestNotFoundError(GandyError, LookupError):
    """No manifest has this external id."""

    def __init__(self, external_id: str) -> None:
        super().__init__(f"no manifest {external_id!r}; `gandy manifests list` shows what there is")
        self.external_id = external_id


class GroupNotFoundError(GandyError, LookupError):
    """No group of this application has this name."""

    def __init__(self, owner: str, name: str) -> None:
        super().__init__(f"{owner!r} has no group {name!r}; `gandy groups list` shows what there is")
        self.owner = owner
        self.name = name


class ManifestAmbiguousError(GandyError, LookupError):
    """Several applications have a manifest with this external id."""

    exit_code = 2

    def __init__(self, external_id: str, owners: tuple[str, ...]) -> None:
        super().__init__(
            f"{' and '.join(owners)} each have a manifest {external_id!r}; say which: --owner NAME"
        )
        self.external_id = external_id
        self.owners = owners


class OneOwnerNeededError(GandyError):
    """Something that works for one application was asked of all of them."""

    exit_code = 2

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} belongs to one application: pass --owner NAME instead of --all-owners")
        self.what = what


class ParentNotFoundError(GandyError):
    """A dependent whose parent is neither declared nor stored."""

    def __init__(self, external_id: str, parent: str) -> None:
        super().__init__(
            f"manifest {external_id!r} waits for {parent!r}, which is not there; declare it first"
        )
        self.external_id = external_id
        self.parent = parent


class ManifestDeclaredError(GandyError):
    """A manifest that the application's code declares, so that it cannot be added or removed beside it."""

    def __init__(self, external_id: str) -> None:
        super().__init__(
            f"manifest {external_id!r} is declared in the application's code: change it there, or disable it"
        )
        self.external_id = external_id


class ManifestInUseError(GandyError):
    """A manifest that cannot be removed now."""

    def __init__(self, external_id: str, problem: str) -> None:
        super().__init__(f"manifest {external_id!r} cannot be removed: {problem}")
        self.external_id = external_id
        self.problem = problem


class TriggerInputConflictError(GandyError):
    """A trigger with an input of its own while an entry with another input waits."""

    def __init__(self, external_id: str, entry_id: int) -> None:
        super().__init__(
            f"manifest {external_id!r} already waits in the queue as entry {entry_id} with another input; "
            f"let it run, or cancel it: gandy queue cancel {entry_id}"
        )
        self.external_id = external_id
        self.entry_id = entry_id


class OverrideError(GandyError, ValueError):
    """A value that cannot be set beside what the code declares."""

    exit_code = 2

    def __init__(self, subject: str, problem: str) -> None:
        super().__init__(f"{subject}: {problem}")
        self.subject = subject
        self.problem = problem
