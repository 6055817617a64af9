"""Pages that preview and confirm a change of many runs or entries."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Form
from pydantic import Field
from starlette.responses import Response

from gandy.desk.cancelling import UndispatchedStatus
from gandy.desk.choosing.walks import Preview, preview_of_ids
from gandy.errors import JobNotFoundError, RunNotFoundError
from gandy.model.run import TrainState
from gandy.store.cancelling import CancelResult
from gandy.store.reading.listings import EntryFilter, Gate, RerunResult, RunFilter
from gandy.web.access.routes import Routes
from gandy.web.choosing.filters import BulkForm
from gandy.web.dependencies import CurrentContext, CurrentOperator, cancel_desk
from gandy.web.runs import rerun_desk
from gandy.web.surroundings import Here, PageContext

runs = Routes("/runs")
queue = Routes("/queue")


class RunsForm(BulkForm):
    """The runs to change, and how."""

    verb: Literal["cancel", "rerun"] = "cancel"
    state: TrainState | None = None

    def wanted(self) -> RunFilter:
        """Convert the filters for the desk; selected ids take none."""
        if self.scope == "selected":
            return RunFilter()
        return RunFilter(state=self.state, **self.common())


class EntriesForm(BulkForm):
    """The entries to change."""

    verb: Literal["cancel"] = "cancel"
    status: UndispatchedStatus | None = Field(None)
    gate: Gate | None = None

    def wanted(self) -> EntryFilter:
        """Convert the filters for the desk; selected ids take none."""
        if self.scope == "selected":
            return EntryFilter()
        return EntryFilter(status=self.status, gate=self.gate, **self.common())


@runs.changes("/preview")
async def preview_runs(
    context: CurrentContext, operator: CurrentOperator, here: Here, form: Annotated[RunsForm, Form()]
) -> Response:
    """Show what a change of many runs would touch, and ask for confirmation."""
    if form.scope == "selected":
        found = preview_of_ids(form.ids)
    elif form.verb == "rerun":
        found = await rerun_desk(context, operator).preview(form.wanted())
    else:
        found = await cancel_desk(context, operator).preview_runs(form.wanted())
    return _confirm(here, form, found, what="run", path="/runs")


@runs.changes("/apply")
async def apply_to_runs(
    context: CurrentContext, operator: CurrentOperator, here: Here, form: Annotated[RunsForm, Form()]
) -> Response:
    """Cancel or repeat the confirmed runs."""
    if form.verb == "rerun":
        repeated = await rerun_desk(context, operator).runs(form.chosen_ids, form.wanted())
        if form.chosen_ids and len(repeated.unknown) == len(form.chosen_ids):
            raise RunNotFoundError(form.chosen_ids[0])
        return here.done("/queue", form.said(_said_of_reruns(repeated)))
    result = await cancel_desk(context, operator).runs(form.chosen_ids, form.wanted())
    if form.chosen_ids and len(result.unknown) == len(form.chosen_ids):
        raise RunNotFoundError(form.chosen_ids[0])
    return here.done("/runs", form.said(_said(result)))


@queue.changes("/preview")
async def preview_entries(
    context: CurrentContext, operator: CurrentOperator, here: Here, form: Annotated[EntriesForm, Form()]
) -> Response:
    """Show which entries would be cancelled, and ask for confirmation."""
    if form.scope == "selected":
        found = preview_of_ids(form.ids)
    else:
        found = await cancel_desk(context, operator).preview_entries(form.wanted())
    return _confirm(here, form, found, what="entry", path="/queue")


@queue.changes("/apply")
async def apply_to_entries(
    context: CurrentContext, operator: CurrentOperator, here: Here, form: Annotated[EntriesForm, Form()]
) -> Response:
    """Cancel the confirmed entries."""
    result = await cancel_desk(context, operator).entries(form.chosen_ids, form.wanted())
    if form.chosen_ids and len(result.unknown) == len(form.chosen_ids):
        raise JobNotFoundError(form.chosen_ids[0])
    return here.done("/queue", form.said(_said(result)))


def _confirm(here: PageContext, form: BulkForm, found: Preview, *, what: str, path: str) -> Response:
    return here.page(
        "bulk_confirm.html",
        form=form,
        fields=form.confirmed(found),
        further=form.further(found),
        found=found,
        what=what,
        path_back=path,
    )


def _said(result: CancelResult) -> str:
    said = [f"{len(result.cancelled)} cancelled"]
    if result.asked:
        said.append(f"{len(result.asked)} asked to stop")
    if result.over:
        said.append(f"{len(result.over)} had already ended")
    if result.unknown:
        said.append(f"{len(result.unknown)} not found")
    return ", ".join(said) + "."


def _said_of_reruns(result: RerunResult) -> str:
    said = [f"{len(result.rerun)} queued again"]
    if result.not_over:
        said.append(f"{len(result.not_over)} had not ended")
    if result.unknown:
        said.append(f"{len(result.unknown)} not found")
    return ", ".join(said) + "."
