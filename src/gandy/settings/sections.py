"""Every setting with its type, default and description, in one frozen section for each component."""

# ruff: noqa: RUF009 the calls declare fields, as dataclasses.field does
from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

from gandy.settings.job_sections import (
    DispatcherSettings,
    HookSettings,
    ManifestManagerSettings,
    RetrySettings,
    RunLogSettings,
    ScheduleSettings,
    WorkerSettings,
)
from gandy.settings.kinds import (
    choice,
    database_url,
    file_path,
    host,
    or_none,
    pause,
    secret_token,
    setting,
    span,
    switch,
    whole_number,
)
from gandy.settings.upkeep_sections import (
    CleanupSettings,
    LifecycleSettings,
    RetentionSettings,
)

_HIGHEST_PORT = 65_535


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """Where Gandy keeps its tables."""

    url: str = setting(
        database_url(),
        "sqlite:///gandy.db",
        "The database. A relative SQLite path in gandy.toml, and the default, are relative to the folder of "
        "that file; others to the current folder. In a user name or password write @ as %40, / as %2F, "
        "? as %3F, # as %23 and % as %25; a password among the parameters comes last.",
    )
    notify_url: str | None = setting(
        or_none(database_url("postgresql://", "postgres://")),
        None,
        "A direct connection for LISTEN and NOTIFY, if `url` points to a transaction pooler.",
    )
    pool_size: int = setting(
        whole_number(maximum=1_000), 10, "The size of the connection pool of one process."
    )
    connect_timeout: timedelta = setting(
        span(timedelta(milliseconds=100), timedelta(hours=1)),
        timedelta(seconds=5),
        "How long to wait for a connection.",
    )
    listen_check_every: timedelta = setting(
        pause(),
        timedelta(seconds=10),
        "How often a silent LISTEN connection is checked.",
    )
    prepared_statements: bool = setting(
        switch(), True, "Off if a transaction pooler does not support prepared statements."
    )


@dataclass(frozen=True, slots=True)
class WebSettings:
    """The dashboard, the REST interface and the metrics."""

    host: str = setting(
        host(),
        "127.0.0.1",
        "The address to listen on. Any address but the local host requires a configured token.",
    )
    port: int = setting(
        whole_number(minimum=0, maximum=_HIGHEST_PORT), 8423, "The port to listen on; 0 chooses a free port."
    )
    token: str | None = setting(
        or_none(secret_token()),
        None,
        "Grants full access, as a Bearer token or in the login form. Without any token a start on the local "
        "host makes one and prints a link that signs in.",
    )
    readonly_token: str | None = setting(
        or_none(secret_token()),
        None,
        "Grants read-only access. Without another token the dashboard is read-only for everyone.",
    )
    tokens_file: str | None = setting(
        or_none(file_path()),
        None,
        "Tokens for several people: a line each, with a name, `operator` or `read-only`, and the SHA-256 of "
        "the token. Changes take effect at once.",
    )


@dataclass(frozen=True, slots=True)
class LoggingSettings:
    """The log of a process."""

    level: Literal["debug", "info", "warning", "error"] = setting(
        choice("debug", "info", "warning", "error"), "info", "The lowest level that is logged."
    )
    format: Literal["text", "json"] = setting(choice("text", "json"), "text", "Plain text or JSON lines.")


@dataclass(frozen=True, slots=True)
class Settings:
    """Every section; each field of each is one setting."""

    database: DatabaseSettings = field(default_factory=DatabaseSettings)
    manifest_manager: ManifestManagerSettings = field(default_factory=ManifestManagerSettings)
    dispatcher: DispatcherSettings = field(default_factory=DispatcherSettings)
    worker: WorkerSettings = field(default_factory=WorkerSettings)
    retry: RetrySettings = field(default_factory=RetrySettings)
    schedule: ScheduleSettings = field(default_factory=ScheduleSettings)
    run_log: RunLogSettings = field(default_factory=RunLogSettings)
    hooks: HookSettings = field(default_factory=HookSettings)
    cleanup: CleanupSettings = field(default_factory=CleanupSettings)
    retention: RetentionSettings = field(default_factory=RetentionSettings)
    lifecycle: LifecycleSettings = field(default_factory=LifecycleSettings)
    web: WebSettings = field(default_factory=WebSettings)
    logging: LoggingSettings = field(default_factory=LoggingSettings)
