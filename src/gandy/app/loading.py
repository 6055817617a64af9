"""The application that a reference or gandy.toml names, imported."""

from __future__ import annotations

import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from gandy.errors import AppLoadError, AppReferenceError, GandyError
from gandy.settings import load_settings
from gandy.settings.files import distrust
from gandy.settings.loading import current_folder
from gandy.settings.urls import mask_url

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from gandy.app import Gandy


def find_app(reference: str | None, keywords: Mapping[str, Mapping[str, object]]) -> Gandy | None:
    """Import the application of this reference, else of gandy.toml; None if neither names one."""
    directory = current_folder()
    if reference is None:
        loaded = load_settings(keywords=keywords)
        reference, directory = loaded.app, loaded.directory
    if reference is None:
        return None
    app = load_app(reference, directory=directory)
    app.configure(keywords)
    return app


def load_app(reference: str, *, directory: Path) -> Gandy:
    """Import the application; search the directory first, unless another user can write to it."""
    if "://" in reference or "@" in reference:
        raise AppReferenceError(mask_url(reference), "this looks like a URL; pass it as --database")
    module_name, _, name = reference.partition(":")
    if not module_name or not name:
        raise AppReferenceError(reference, "write it as MODULE:NAME, such as billing.jobs:app")
    if distrust(directory) is None and str(directory) not in sys.path:
        sys.path.insert(0, str(directory))
    return _pick(_import(reference, module_name, directory), reference, name)


def _import(reference: str, module_name: str, directory: Path) -> ModuleType:
    try:
        return import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and f"{module_name}.".startswith(f"{error.name}."):
            raise AppReferenceError(reference, _not_found(error.name, directory)) from error
        raise AppLoadError(reference, _location(error), str(error)) from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise AppLoadError(reference, _location(error), _summary(error)) from error


def _not_found(module_name: str, directory: Path) -> str:
    if reason := distrust(directory):
        return (
            f"there is no module {module_name!r} among the installed packages, and {directory} is not "
            f"searched, because {reason}; PYTHONPATH={directory} imports from it all the same"
        )
    return f"there is no module {module_name!r} in {directory} nor among the installed packages"


def _pick(module: ModuleType, reference: str, name: str) -> Gandy:
    from gandy.app import Gandy  # noqa: PLC0415 the errors above need none of it

    found: object = getattr(module, name, None)
    if isinstance(found, Gandy):
        return found
    apps = [f"{module.__name__}:{other}" for other, value in vars(module).items() if isinstance(value, Gandy)]
    hint = f"did you mean {' or '.join(apps)}?" if apps else "the module has no application: app = Gandy(...)"
    what = f"has no {name!r}" if found is None else f"{name!r} is a {type(found).__name__}, not a Gandy"
    raise AppReferenceError(reference, f"{what}; {hint}")


def _location(error: BaseException) -> str:
    """Return the innermost line of the user's own code, or of the whole traceback."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_short(error.filename)}:{error.lineno}"
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<")
    ]
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(Path.cwd())]
    last = (own or frames)[-1]
    return f"{_short(last.filename)}:{last.lineno}"


def _short(filename: str) -> str:
    path = Path(filename)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else filename


def _summary(error: BaseException) -> str:
    if isinstance(error, GandyError):
        return str(error)
    return "".join(traceback.format_exception_only(error)[-1:]).strip()
