"""Settings that know where each of their values came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gandy.settings.catalogue import SettingField, list_settings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gandy.settings.given import Origin
    from gandy.settings.sections import Settings


@dataclass(frozen=True, slots=True)
class ShownSetting:
    """One setting as people may see it: secrets and passwords are hidden."""

    key: str
    value: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """The settings, where each came from, and what else gandy.toml says."""

    settings: Settings
    origins: Mapping[str, Origin]  #: by key, such as `worker.slots`
    directory: Path  #: the folder of gandy.toml, else the one the search began in
    file: Path | None
    app: str | None  #: the application that gandy.toml names

    def shown(self) -> tuple[ShownSetting, ...]:
        """List every setting with its value and its origin."""
        return tuple(
            ShownSetting(setting.key, show_value(setting, self.settings), self.origins[setting.key])
            for setting in list_settings()
        )


def show_value(setting: SettingField, settings: Settings) -> str:
    """Write the value of one setting as people may see it."""
    value: object = getattr(getattr(settings, setting.section), setting.name)
    return setting.kind.shown(setting.kind.write(value))
