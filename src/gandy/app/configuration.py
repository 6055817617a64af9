"""The settings of one application: loaded at first use, overridable before it is opened."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from gandy.settings import LoadedSettings, load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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

    @contextmanager
    def replaced(self, url: str, clock: ManualClock) -> Iterator[None]:
        """Use another database and clock in the block; afterwards all settings are as they were."""
        kept = self._sections, self._loaded, self.clock
        self._sections = {name: dict(section) for name, section in self._sections.items()}
        self.override({"database": {"url": url, "notify_url": None}})
        self.clock = clock
        try:
            yield
        finally:
            self._sections, self._loaded, self.clock = kept
