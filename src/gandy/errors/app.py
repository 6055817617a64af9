"""What can be wrong with an application and its declarations."""

from __future__ import annotations

from gandy.errors.base import GandyError


class UnknownHookError(GandyError):
    """A hook was asked for on an event that does not exist."""

    def __init__(self, *, name: str, known: tuple[str, ...]) -> None:
        self.name = name
        self.known = known
        super().__init__(f"no hook is named {name!r}; the hooks are {', '.join(known)}")


class DeclarationError(GandyError, ValueError):
    """Something declared that cannot be kept."""

    exit_code = 2

    def __init__(self, name: str, problem: str, *, what: str = "manifest") -> None:
        super().__init__(f"{what} {name!r}: {problem}")
        self.name = name
        self.problem = problem
        self.what = what


class DuplicateDeclarationError(DeclarationError):
    """Two declarations with one name."""

    def __init__(self, name: str, *, what: str, known: tuple[str, ...]) -> None:
        super().__init__(name, f"it is declared already; declared so far: {', '.join(known)}", what=what)
        self.known = known


class DeclaredTooLateError(GandyError):
    """Something was declared after the application was opened, when nobody would look at it any more."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name!r}: the application is open already; declare it before opening, "
            "or use await app.add_schedule(...), which writes it at once"
        )
        self.name = name


class MissingInputError(GandyError, TypeError):
    """A train that takes an input was given none."""

    exit_code = 2

    def __init__(self, train: str, input_type: str) -> None:
        super().__init__(f"train {train} takes an input of type {input_type}; none was given")
        self.train = train
        self.input_type = input_type


class AppNotOpenError(GandyError):
    """The application was asked for something that needs its database while it is closed."""

    def __init__(self, app: str, asked: str) -> None:
        super().__init__(
            f"{asked} needs the database of {app!r}, which is not open; write `async with app:` around it, "
            "`with app as sync:` in a script, or use app.sync"
        )
        self.app = app
        self.asked = asked


class AppOpenElsewhereError(GandyError):
    """The application is open in one event loop and was used in another."""

    def __init__(self, app: str) -> None:
        super().__init__(f"{app!r} is open in another event loop; use app.sync from other threads")
        self.app = app


class UnknownServiceError(GandyError):
    """A service was asked for that does not exist."""

    exit_code = 2

    def __init__(self, name: str, *, known: tuple[str, ...]) -> None:
        super().__init__(f"no service is named {name!r}; the services are {', '.join(known)}")
        self.name = name
        self.known = known
