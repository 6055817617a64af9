"""What an application has declared so far; declaring touches no database."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gandy.app.manifests import ScheduleOptions, declare, refuse_bad_id
from gandy.app.scheduled import Scheduled
from gandy.errors import DeclarationError, DeclaredTooLateError, DuplicateDeclarationError
from gandy.model.manifest import Declarations
from gandy.model.schedule import DormantDependent
from gandy.settings.bounds import problems_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gandy.app.keywords import AnyTrain, ScheduleKeywords
    from gandy.lifecycle import Contract
    from gandy.model.manifest import BatchDeclaration, GroupDeclaration, ManifestDeclaration
    from gandy.model.schedule import Schedule
    from gandy.train.registry import Registry


class Declared:
    """Gathers groups, manifests and batches, each under its own name, until the application is opened."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.is_sealed = False
        self._groups: dict[str, GroupDeclaration] = {}
        self._manifests: dict[str, ManifestDeclaration] = {}
        self._batches: dict[str, BatchDeclaration] = {}
        self._usual_groups: dict[str, GroupDeclaration] = {}
        self._contracts: dict[str, Contract] = {}

    def add_group(self, group: GroupDeclaration) -> None:
        """Declare a group."""
        self._refuse(group.name, "group", self._groups)
        if problems := problems_of(group):
            raise DeclarationError(group.name, "; ".join(problems), what="group")
        self._groups[group.name] = group

    def add_usual_group(self, group: GroupDeclaration) -> None:
        """Declare a group that comes with a train; what the application says of it stands over this."""
        self._usual_groups[group.name] = group

    def add_contract(self, contract: Contract) -> None:
        """Declare a lifecycle contract."""
        self._refuse(contract.name, "lifecycle", self._contracts)
        self._contracts[contract.name] = contract

    @property
    def contracts(self) -> tuple[Contract, ...]:
        """The lifecycle contracts, in the order of their declaration."""
        return tuple(self._contracts.values())

    def schedule(
        self,
        external_id: str,
        train: AnyTrain,
        *,
        schedule: Schedule,
        input: object,
        keywords: ScheduleKeywords,
    ) -> Scheduled:
        """Declare one manifest."""
        options = ScheduleOptions(**keywords)
        self._refuse(external_id, "manifest", self._manifests)
        definition = self._registry.resolve(train)
        self._manifests[external_id] = declare(
            external_id, definition, schedule, input=input, options=options
        )
        if isinstance(schedule, DormantDependent):
            self._registry.dormant[external_id] = definition
        return Scheduled(self, external_id)

    def schedule_batch(
        self,
        batch: BatchDeclaration,
        train: AnyTrain,
        *,
        schedule: Schedule,
        inputs: Mapping[str, object],
        keywords: ScheduleKeywords,
    ) -> Mapping[str, Scheduled]:
        """Declare manifests that belong together: all of them, or none where one is refused."""
        self._refuse(batch.name, "batch", self._batches)
        if problems := problems_of(batch):
            raise DeclarationError(batch.name, "; ".join(problems), what="batch")
        given = ScheduleOptions(**keywords)
        options = replace(given, group=batch.name) if given.group is None else given
        definition = self._registry.resolve(train)
        made = {
            key: declare(
                f"{batch.name}-{key}", definition, schedule, input=value, options=options, batch=batch.name
            )
            for key, value in inputs.items()
        }
        for manifest in made.values():
            self._refuse(manifest.external_id, "manifest", self._manifests)
        self._batches[batch.name] = batch
        self._manifests.update((manifest.external_id, manifest) for manifest in made.values())
        return {key: Scheduled(self, manifest.external_id) for key, manifest in made.items()}

    def of(self, owner: str) -> Declarations:
        """Give all of it as one value."""
        return Declarations(
            owner=owner,
            groups=tuple((self._usual_groups | self._groups).values()),
            manifests=tuple(self._manifests.values()),
            batches=tuple(self._batches.values()),
        )

    def _refuse(self, name: str, what: str, known: Mapping[str, object]) -> None:
        if self.is_sealed:
            raise DeclaredTooLateError(name)
        refuse_bad_id(name, what=what)
        if name in known:
            raise DuplicateDeclarationError(name, what=what, known=tuple(known))
