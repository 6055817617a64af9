"""The page of the documentation that lists every setting, written from the code."""

from __future__ import annotations

from dataclasses import fields
from textwrap import dedent

from gandy.settings.catalogue import SettingField, list_settings
from gandy.settings.sections import Settings

_HEAD = """\
    # Settings

    <!-- Written by `python -m gandy.settings`; a test compares. -->

    A value is taken from the first of these that has one:

    1. a keyword of the application in Python,
    2. the environment, under the variable named below,
    3. `gandy.toml` in the current folder, or in the nearest one above it within the same project,
    4. the default.

    The root of a project is the nearest folder that holds `.git`, else the nearest with `pyproject.toml`;
    where there is neither, only the current folder counts. The search never enters a folder of another owner
    or one that other users can write to. A file is refused if another user than you or root owns it, its
    folder or its symbolic link, or if others can write to one of them (a group counts, unless it is root's or
    your own private one). The message names the file and the reason. A command goes on without a refused file
    only where `--database`, `GANDY_DATABASE_URL` or Python names the database, else it ends with exit code 2:
    no other database is used in its place. Nothing is imported from such a folder either, also where `--app`
    or `GANDY_APP` names the module; `PYTHONPATH` adds a folder on your own word.

    Every value is checked, also one that another overrides, and all problems are reported at once. A name
    that is no setting is a problem too. `gandy config show` prints each value and where it came from; secrets
    and passwords are hidden.

    Durations are written with their units: `250ms`, `90s`, `30m`, `1h30m`, `7d`, `2w`. In the environment a
    switch is `on`, `off`, `true`, `false`, `1` or `0`, and an empty variable counts as none at all. `none` is
    the word for no value, in quotes in TOML.

    ```toml
    app = "billing:app"            # what the command line loads, where neither --app nor GANDY_APP says

    [worker]
    slots = 50
    lease_for = "12s"
    ```

    The tables `[lifecycle.NAME]` in the same file are lifecycle contracts, not settings.
    """


def render_reference() -> str:
    """Write the page, in Markdown."""
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
