"""The declarations of an application, collected until it is opened."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gandy.app.keywords import Scheduled, split_place
from gandy.desk.declarations import declare, placed, refuse_bad_id, refuse_misfit, schedule_options
from gandy.errors import DeclarationError, DeclaredTooLateError, DuplicateDeclarationError
from gandy.model.manifest import BatchDeclaration, Declarations, GroupDeclaration
from gandy.model.schedule import DormantDependent, edges_of
from gandy.rules.schedules import refuse_cycle
from gandy.settings.bounds import problems_of

if TYPE_CHECKING:
    from gandy.app.keywords import AnyTrain
    from gandy.lifecycle import Contract
    from gandy.model.manifest import ManifestDeclaration
    from gandy.model.schedule import Schedule, TimeSchedule
    from gandy.train.registry import Registry


class Declared:
    """Collects groups, manifests and batches by name, until the application is opened."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.is_sealed = False
        self._groups: dict[str, GroupDeclaration] = {}
        self._manifests: dict[str, ManifestDeclaration] = {}
        self._batches: dict[str, BatchDeclaration] = {}
        self._usual_groups: dict[str, GroupDeclaration] = {}
        self._contracts: dict[str, Contract] = {}
        self._named_parents: set[str] = set()

    def add_group(self, group: GroupDeclaration) -> None:
        """Declare a group."""
        self._refuse(group.name, "group", self._groups)
        if problems := problems_of(group):
            raise DeclarationError(group.name, "; ".join(problems), what="group")
        self._groups[group.name] = group

    def add_usual_group(self, group: GroupDeclaration) -> None:
        """Declare the default of a train's group; the application's own declaration overrides it."""
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
        keywords: Mapping[str, Any],
    ) -> Scheduled:
        """Declare one manifest."""
        given, place = split_place(keywords)
        options = schedule_options(given)
        self._refuse(external_id, "manifest", self._manifests)
        definition = self._registry.resolve(train)
        when = placed(external_id, schedule, place)
        made = declare(external_id, definition, when, input=input, options=options)
        self._keep(made)
        return Scheduled(self, external_id)

    def _keep(self, *made: ManifestDeclaration) -> None:
        """Keep manifests that are declared; raise if they follow each other or cannot take an output."""
        new = {each.external_id: each for each in made}
        known = ChainMap(new, self._manifests)
        for manifest in made:
            parents = [edge.parent for edge in edges_of(manifest.schedule)]
            self._named_parents.update(parents)
            if manifest.external_id in self._named_parents:  # by an id, before it was declared
                above = {
                    name: [edge.parent for edge in edges_of(each.schedule)] for name, each in known.items()
                }
                refuse_cycle(above, [manifest.external_id])
            self._refuse_misfits(manifest, known)
        self._manifests |= new
        for manifest in made:
            if isinstance(manifest.schedule, DormantDependent):
                self._registry.dormant[manifest.external_id] = self._registry.get(manifest.train)

    def _refuse_misfits(
        self, manifest: ManifestDeclaration, known: Mapping[str, ManifestDeclaration]
    ) -> None:
        passing = [edge.parent for edge in edges_of(manifest.schedule) if edge.is_output_passed]
        for parent in (known[each] for each in passing if each in known):
            train = self._registry.get(manifest.train)
            refuse_misfit(manifest.external_id, self._registry.get(parent.train), train)

    def schedule_batch(
        self,
        name: str,
        train: AnyTrain,
        *,
        schedule: TimeSchedule,
        inputs: Mapping[str, object],
        keywords: Mapping[str, Any],
    ) -> Mapping[str, Scheduled]:
        """Declare a batch of manifests: all of them, or none if one is refused."""
        shared, place = split_place(keywords)
        batch = BatchDeclaration(name=name, prune_empty=shared.pop("prune_empty", False))
        self._refuse(name, "batch", self._batches)
        if problems := problems_of(batch):
            raise DeclarationError(name, "; ".join(problems), what="batch")
        own = _options_by_key(name, inputs, shared.pop("options", {}))
        definition = self._registry.resolve(train)
        when = placed(name, schedule, place)
        made = {}
        for key, value in inputs.items():
            options = schedule_options({**shared, **own.get(key, {})})
            given = {**options, "group": name} if options.get("group") is None else options
            external_id = f"{name}-{key}"
            made[key] = declare(external_id, definition, when, input=value, options=given, batch=name)
        for manifest in made.values():
            self._refuse(manifest.external_id, "manifest", self._manifests)
        self._keep(*made.values())
        self._batches[name] = batch
        return {key: Scheduled(self, manifest.external_id) for key, manifest in made.items()}

    def of(self, owner: str) -> Declarations:
        """Return all declarations as one value."""
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


def _options_by_key(
    name: str, inputs: Mapping[str, object], given: object
) -> Mapping[str, Mapping[str, Any]]:
    """Return the options of single members; raise for one that is no member."""
    if not isinstance(given, Mapping) or not all(isinstance(each, Mapping) for each in given.values()):
        problem = 'options must be a mapping such as {"orders": {"priority": 5}}'
        raise DeclarationError(name, problem, what="batch")
    if unknown := [str(key) for key in given if key not in inputs]:
        problem = f"options are given for {', '.join(unknown)}, which no input has; correct the key"
        raise DeclarationError(name, problem, what="batch")
    return given
