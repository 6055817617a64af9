"""The list of all settings, the checks between them, and the reference page."""

from __future__ import annotations

from dataclasses import MISSING, Field, dataclass, fields
from functools import cache
from textwrap import dedent
from typing import TYPE_CHECKING

from gandy.settings.sections import Settings
from gandy.settings.urls import supports_notify
from gandy.settings.values import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gandy.settings.kinds import Kind


@dataclass(frozen=True, slots=True)
class SettingField:
    """One setting: its names, its kind, its default and its description."""

    section: str
    name: str
    kind: Kind[object]
    default: object
    default_shown: str
    about: str

    @property
    def key(self) -> str:
        """The name in messages and listings, such as `worker.slots`."""
        return f"{self.section}.{self.name}"

    @property
    def variable(self) -> str:
        """The name in the environment, such as `GANDY_WORKER_SLOTS`."""
        return f"GANDY_{self.section}_{self.name}".upper()


@cache
def list_settings() -> tuple[SettingField, ...]:
    """List every setting, in the order of the sections."""
    defaults = Settings()
    return tuple(
        _describe(section.name, declared)
        for section in fields(Settings)
        for declared in fields(getattr(defaults, section.name))
    )


def _describe(section: str, declared: Field[object]) -> SettingField:
    kind: Kind[object] = declared.metadata["kind"]
    default = declared.default if declared.default_factory is MISSING else declared.default_factory()
    return SettingField(
        section=section,
        name=declared.name,
        kind=kind,
        default=default,
        default_shown=declared.metadata.get("default_is", kind.write(default)),
        about=declared.metadata["about"],
    )


def find_contradictions(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield the key of each setting that contradicts another, and the problem."""
    worker, web, database = settings.worker, settings.web, settings.database
    if 2 * worker.heartbeat_every > worker.lease_for:
        lease = format_duration(worker.lease_for)
        yield "worker.heartbeat_every", f"must be at most half of worker.lease_for ({lease})"
    if web.token is not None and web.token == web.readonly_token:
        yield "web.readonly_token", "must differ from web.token, or its holders could change everything"
    if database.notify_url is not None and not supports_notify(database.url):
        yield (
            "database.notify_url",
            "has no effect: database.url is a file, which sends no notifications; remove it",
        )


_HEAD = """\
    # Settings

    <!-- Written by `python -m gandy.settings`; a test compares. -->

    A value is taken from the first of these that has one:

    1. a keyword of the application in Python,
    2. the environment, under the variable named below,
    3. `gandy.toml` in the current folder, or in the nearest one above it within the same project,
    4. the default.

    The root of a project is the nearest folder that holds `.git`, else the nearest with `pyproject.toml`;
    without either, only the current folder counts. The search never enters a folder of another owner
    or one that other users can write to. A file is refused if another user than you or root owns it, its
    folder or its symbolic link, or if others can write to one of them (a group counts, unless it is root's or
    your own private one). The message names the file and the reason. A command continues without a refused
    file only if `--database`, `GANDY_DATABASE_URL` or Python names the database, else it ends with exit code
    2: no other database is used in its place. Nothing is imported from such a folder either, not even if
    `--app` or `GANDY_APP` names the module; `PYTHONPATH` adds a folder without this check.

    Every value is checked, also a value that another overrides, and all problems are reported at once. An
    unknown name is a problem, too. `gandy config show` prints each value and its source; secrets and
    passwords are hidden.

    Durations are written with their units: `250ms`, `90s`, `30m`, `1h30m`, `7d`, `2w`. In the environment a
    switch is `on`, `off`, `true`, `false`, `1` or `0`, and an empty variable counts as unset. `none` means no
    value, in quotes in TOML.

    ```toml
    app = "billing:app"            # loaded by the command line without --app and GANDY_APP

    [worker]
    slots = 50
    lease_for = "12s"
    ```

    The tables `[lifecycle.NAME]` in the same file are lifecycle contracts, not settings.
    """


def render_reference() -> str:
    """Return the page, in Markdown."""
    sections = [_render_section(section.name) for section in fields(Settings)]
    return "\n".join([dedent(_HEAD), *sections])


def _render_section(name: str) -> str:
    about = (type(getattr(Settings(), name)).__doc__ or "").strip()
    settings = [setting for setting in list_settings() if setting.section == name]
    head = f"## {name}\n\n{about}\n\n| setting | default | what it does |\n|---|---|---|\n"
    return head + "".join(map(_render_row, settings))


def _render_row(setting: SettingField) -> str:
    names = f"`{setting.name}`<br>`{setting.variable}`"
    default = setting.default_shown and f"`{setting.default_shown}`"
    return f"| {names} | {default or 'empty'} | {setting.about} Takes {setting.kind.expected}. |\n"
