"""`app.manifests`."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Unpack

from gandy.app.keywords import split_place
from gandy.app.verbs.face import Face, Verb, Verbs
from gandy.app.verbs.values import NOT_GIVEN, cancel_desk, input_json, known_train, recurring, train_name
from gandy.desk.declarations import exclusions_of, schedule_options, split_arguments
from gandy.desk.explain import explain_manifest
from gandy.desk.manifests import ManifestDesk
from gandy.desk.schedules import OVERRIDABLE, ManifestChanges, NewManifest, preview_manifest
from gandy.store.reading.views import ManifestFilter

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from gandy.app.keywords import AnyTrain, ChangeKeywords, PlacedKeywords, ScheduleWord
    from gandy.desk.audit import Listed
    from gandy.desk.explain import Explanation
    from gandy.desk.manifests import ManifestDetail, ManifestSummary
    from gandy.desk.schedules import PreviewedInstant
    from gandy.model.schedule import Cron, Interval, TimeSchedule
    from gandy.store.cancelling import CancelResult
    from gandy.store.queueing import RemovedManifest, Triggered

_NOW: Final = timedelta(0)


class ManifestVerbs(Verbs[Face]):
    """The verbs of `gandy manifests`."""

    noun = "manifests"

    @Verb
    async def list(
        self,
        *,
        prefix: str = "",
        group: str | None = None,
        train: AnyTrain | str | None = None,
        schedule_type: ScheduleWord | None = None,
        enabled: bool | None = None,
        after: str = "",
        limit: int = 50,
    ) -> Listed[ManifestSummary]:
        """List manifests by external id; `next` of the result is the `after` of the next page."""
        wanted = ManifestFilter(
            prefix=prefix,
            group=group,
            train=train_name(self._context, train),
            schedule_type=schedule_type,
            is_enabled=enabled,
            after=after,
            limit=limit,
        )
        return await self._desk(None).list(wanted)

    @Verb
    async def show(self, external_id: str) -> ManifestDetail:
        """Show one manifest with the values in force."""
        return await self._desk(None).show(external_id)

    @Verb
    async def add(
        self,
        external_id: str,
        train: AnyTrain | str,
        schedule: TimeSchedule | None = None,
        *,
        input: object = NOT_GIVEN,
        pass_output: bool = False,
        as_operator: str | None = None,
        **options: Unpack[PlacedKeywords],
    ) -> ManifestDetail:
        """Make a manifest that no deploy removes, or change one that was made so.

        It is recorded in the audit trail. `app.add_schedule` is for the application itself, and type checkers
        know its input.
        """
        context = self._context
        given, place = split_place({**options, "pass_output": pass_output})
        name = known_train(context, train).name
        _, when = split_arguments(None, schedule)
        new = NewManifest(
            external_id=external_id,
            train=name,
            schedule=when,
            place=place,
            input_json=input_json(input, of=name),
            options=given,
        )
        return await self._desk(as_operator).add(new, context.settings)

    @Verb
    async def remove(self, external_id: str, *, as_operator: str | None = None) -> RemovedManifest:
        """Remove a manifest that was made at run time, with its queued and waiting entries.

        The result is false if a run is in progress: the manifest is removed when that run ends.
        """
        return await self._desk(as_operator).delete(external_id)

    @Verb
    async def delete(self, external_id: str, *, as_operator: str | None = None) -> RemovedManifest:
        """Delete a manifest that was made at run time or is no longer declared; the same as `remove`."""
        return await self._desk(as_operator).delete(external_id)

    @Verb
    async def trigger(
        self,
        external_id: str,
        *,
        delay: timedelta = _NOW,
        input: object = NOT_GIVEN,
        as_operator: str | None = None,
    ) -> Triggered:
        """Queue a run of the manifest, now or later, even if it is disabled."""
        text = input_json(input, of=f"of manifest {external_id!r}")
        return await self._desk(as_operator).trigger(external_id, delay=delay, input_json=text)

    @Verb
    async def set(
        self,
        external_id: str,
        *,
        schedule: Cron | Interval | None = None,
        input: object = NOT_GIVEN,
        next: datetime | None = None,  # noqa: A002 - the word of the command line
        as_operator: str | None = None,
        **options: Unpack[ChangeKeywords],
    ) -> ManifestDetail:
        """Override declared values; None leaves a value unchanged. The overrides survive a deploy."""
        changes = ManifestChanges(
            schedule=recurring(schedule),
            input_json=input_json(input, of=f"of manifest {external_id!r}"),
            next_at=next,
            **_by_field(options),
        )
        return await self._desk(as_operator).set(external_id, changes)

    @Verb
    async def reset(self, external_id: str, *, as_operator: str | None = None) -> ManifestDetail:
        """Clear all overrides, including a pause."""
        return await self._desk(as_operator).reset(external_id)

    @Verb
    async def enable(self, external_id: str, *, as_operator: str | None = None) -> ManifestDetail:
        """Enable a manifest."""
        return await self._desk(as_operator).enable(external_id)

    @Verb
    async def disable(
        self, external_id: str, *, reason: str | None = None, as_operator: str | None = None
    ) -> ManifestDetail:
        """Disable a manifest; a deploy does not enable it again."""
        return await self._desk(as_operator).disable(external_id, reason)

    @Verb
    async def cancel(self, external_id: str, *, as_operator: str | None = None) -> CancelResult:
        """Cancel its run and its queued entry; later occurrences and waiting activations are not affected."""
        return await cancel_desk(self._context, self._operator(as_operator)).manifest(external_id)

    @Verb
    async def preview(self, external_id: str, *, count: int = 10) -> tuple[PreviewedInstant, ...]:
        """List the next instants with jitter; exclusions and daylight saving changes are marked."""
        context = self._context
        return await preview_manifest(context.database, external_id, count, owners=context.owners)

    @Verb
    async def explain(self, external_id: str) -> Explanation:
        """Explain why a manifest did or did not run, and what to do."""
        return await explain_manifest(self._context.database, external_id, self._context.owners)

    def _desk(self, as_operator: str | None) -> ManifestDesk:
        context = self._context
        return ManifestDesk(
            context.database, self._operator(as_operator), owners=context.owners, registry=context.registry
        )


def _by_field(keywords: Mapping[str, object]) -> dict[str, Any]:
    """Return the given options by the fields of a declaration."""
    given = schedule_options(keywords, among=OVERRIDABLE)
    found = {option.field: given[option.keyword] for option in OVERRIDABLE if option.keyword in given}
    if found.get("exclusions") is not None:
        found["exclusions"] = exclusions_of(found["exclusions"])
    return found
