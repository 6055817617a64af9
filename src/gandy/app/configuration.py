"""The settings of one application: loaded at first use, overridable before it is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gandy.settings import LoadedSettings, load_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gandy.clock import ManualClock


class Configuration:
    """The keywords of an application, and the settings loaded with them."""

    def __init__(self, database: str | None, sections: Mapping[str, Mapping[str, object]]) -> None:
        self.clock: ManualClock | None = None
        self._sections: dict[str, dict[str, object]] = {
            name: dict(section) for name, section in sections.items()
        }
        if database is not None:
            self.override({"database": {"url": database}})
        self._loaded: LoadedSettings | None = None

    @property
    def loaded(self) -> LoadedSettings:
        """The effective settings."""
        if self._loaded is None:
            self._loaded = load_settings(keywords=self._sections)
        return self._loaded

    def override(self, sections: Mapping[str, Mapping[str, object]]) -> None:
        """Override the earlier keywords."""
        for name, section in sections.items():
            self._sections.setdefault(name, {}).update(section)
        self._loaded = None
