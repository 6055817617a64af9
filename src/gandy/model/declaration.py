"""What an application declares: manifests and groups, before any database has seen them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from gandy.model.schedule import MisfirePolicy

if TYPE_CHECKING:
    from gandy.model.exclusion import Exclusion
    from gandy.model.schedule import Schedule
    from gandy.settings.bounds import Timeout

DEFAULT_GROUP: Final = "default"
DEFAULT_MAX_RETRIES: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDeclaration:
    """A group as the code declares it."""

    name: str
    max_active_jobs: int | None = None
    priority: int = 0
    is_enabled: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestDeclaration:
    """A manifest as the code declares it; its input is JSON already, checked against the train's type."""

    external_id: str
    train: str
    input_json: str | None
    input_type_name: str
    schedule: Schedule
    group: str = DEFAULT_GROUP
    priority: int | None = None  #: None: the group's
    max_retries: int = DEFAULT_MAX_RETRIES
    is_retried: bool = True
    retry_delay: timedelta | None = None
    timeout: Timeout | None = None
    is_enabled: bool = True
    variance: timedelta = timedelta(0)
    exclusions: tuple[Exclusion, ...] = ()
    misfire_policy: MisfirePolicy = MisfirePolicy.FIRE_ONCE_NOW
    misfire_threshold: timedelta = timedelta(seconds=60)
    keep_for: timedelta | None = None
    keep_last: int | None = None
    batch: str | None = None  #: the schedule_many that declared it
    unsaid: frozenset[str] = frozenset()  #: the fields that the settings fill in before it is seeded


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDeclaration:
    """A set of manifests that is declared as one; what left it is orphaned."""

    name: str
    prune_empty: bool = False  #: whether an empty set orphans all that were in it


@dataclass(frozen=True, slots=True, kw_only=True)
class Declarations:
    """All that one application declares; who owns it may prune what is no longer in it."""

    owner: str
    groups: tuple[GroupDeclaration, ...] = ()
    manifests: tuple[ManifestDeclaration, ...] = ()
    batches: tuple[BatchDeclaration, ...] = ()
