"""`gandy manifests`: show and change scheduled jobs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gandy.cli.call import Call, pass_call
from gandy.cli.listing import PrintedRows, emit_found, limited, read_pages
from gandy.cli.options import bounded, confirm, example, json_input, json_option, yes_option
from gandy.cli.output import (
    cancel_desk,
    emit_cancelled,
    emit_record,
    emit_rows,
    human,
    print_text,
    say,
)
from gandy.cli.session import CommandSession, with_session
from gandy.desk.audit import local_operator
from gandy.desk.declarations import Place
from gandy.desk.explain import explain_manifest
from gandy.desk.manifests import ManifestDesk, ManifestDetail, ManifestSummary
from gandy.desk.schedules import (
    OVERRIDABLE,
    ManifestChanges,
    NewManifest,
    new_schedule,
    preview_manifest,
    replaced_schedule,
)
from gandy.model import exclusion as exclusion_json
from gandy.model.manifest import MANIFEST_OPTIONS
from gandy.model.schedule import EdgeKind, MisfirePolicy, ScheduleType
from gandy.store.reading.views import ManifestFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import timedelta

    from gandy.desk.explain import Explanation
    from gandy.desk.schedules import PreviewedInstant
    from gandy.model.options import Option


Command = TypeVar("Command", bound="Callable[..., object]")


def setting_options(command: Command) -> Command:
    """Add every option that overrides a declared value to a command."""
    for option in reversed(tuple(_options())):
        command = option(command)
    return command


def adding_options(command: Command) -> Command:
    """Add every option of a new manifest to a command."""
    for option in reversed((*_schedule_options(), *_placing_options(), *map(_option, MANIFEST_OPTIONS))):
        command = option(command)
    return command


def _schedule_options() -> Iterator[Callable[[Command], Command]]:
    yield click.option(
        "--cron",
        "expression",
        type=bounded("cron"),
        metavar="EXPRESSION",
        help="Five fields, six with seconds, or a word such as @daily.",
    )
    yield click.option("--every", type=bounded("every"), metavar="D", help="A fixed rate instead of a cron.")
    yield click.option("--timezone", type=bounded("timezone"), help="The zone of --cron, UTC by default.")


def _placing_options() -> Iterator[Callable[[Command], Command]]:
    at_help = "One time, at this instant with a time zone."
    yield click.option("--at", type=bounded("at"), metavar="T", help=at_help)
    after_help = "Run it after this manifest, instead of by a schedule; several times: after each of them."
    yield click.option("--after", type=bounded("external_id"), multiple=True, metavar="ID", help=after_help)
    ends = click.Choice([EdgeKind.SUCCESS.value, EdgeKind.FAILURE.value, EdgeKind.END.value])
    yield click.option("--on", type=ends, help="The end of the parents that counts, success by default.")
    passed_help = "The output of the parent is the input."
    yield click.option("--pass-output", is_flag=True, help=passed_help)
    yield click.option("--dormant", is_flag=True, help="Only if a run of the parent activates it.")
    yield click.option("--input", "input_json", type=json_input, metavar="JSON", help="The train's input.")


def _options() -> Iterator[Callable[[Command], Command]]:
    yield from _schedule_options()
    next_help = "The next instant, with a time zone."
    yield click.option("--next", "next_at", type=bounded("next_at"), metavar="T", help=next_help)
    yield click.option("--input", "input_json", type=json_input, metavar="JSON", help="The train's input.")
    yield from map(_option, OVERRIDABLE)


def _option(option: Option) -> Callable[[Command], Command]:
    name = "--" + option.keyword.replace("_", "-")
    if option.form.editor == "switch":
        return click.option(f"{name}/--no-{name[2:]}", option.field, default=None, help=option.about)
    kinds = {"choice": click.Choice([policy.value for policy in MisfirePolicy]), "json": json_input}
    kind = kinds.get(option.form.editor) or bounded(option.keyword)
    metavar = {"span": "D", "json": "JSON"}.get(option.form.editor)
    return click.option(name, option.field, type=kind, metavar=metavar, help=option.about)


def changes_of(given: Mapping[str, Any]) -> ManifestChanges:
    """Read the options; values that are not given stay unchanged."""
    options = {option.field: _typed(option, given[option.field]) for option in OVERRIDABLE}
    return ManifestChanges(
        schedule=replaced_schedule(given["expression"], given["every"], given["timezone"]),
        input_json=given["input_json"],
        next_at=given["next_at"],
        **options,
    )


def new_manifest(external_id: str, train: str, given: Mapping[str, Any]) -> NewManifest:
    """Read the options; a value that is not given is the train's, or the setting's."""
    options = {option.keyword: _typed(option, given[option.field]) for option in MANIFEST_OPTIONS}
    return NewManifest(
        external_id=external_id,
        train=train,
        schedule=new_schedule(given["expression"], given["every"], given["timezone"], at=given["at"]),
        place=Place(
            after=given["after"] or None,
            on=given["on"],
            dormant=given["dormant"],
            pass_output=given["pass_output"],
        ),
        input_json=given["input_json"],
        options={keyword: value for keyword, value in options.items() if value is not None},
    )


def _typed(option: Option, value: Any) -> Any:  # noqa: ANN401 of the option's type
    """Convert the value of an option that the command line takes as JSON or as a word."""
    if value is None:
        return None
    match option.form.editor:
        case "json":
            return exclusion_json.from_json(value)
        case "choice":
            return MisfirePolicy(value)
        case _:
            return value


_COLUMNS = ("external_id", "train", "group", "schedule", "state", "next_scheduled_run", "failure_count")
_VERDICT_COLUMNS = ("due_at", "due_until", "occurrences", "verdict", "origin", "attempt", "entry_id")
_LISTS = ("holding_back", "what_to_do", "verdicts")


@click.group(epilog=example("gandy manifests explain report"))
def manifests() -> None:
    """Show and change scheduled jobs."""


@manifests.command("list", epilog=example("gandy manifests list --prefix sync- --disabled"))
@click.option("--prefix", default="", help="Only external ids with this prefix.")
@click.option("--group", type=bounded("group"), metavar="NAME", help="Only manifests of this group.")
@click.option("--train", type=bounded("name"), metavar="NAME", help="Only manifests of this train.")
@click.option(
    "--type",
    "schedule_type",
    type=click.Choice([kind.value for kind in ScheduleType]),
    help="Only this type.",
)
@click.option("--enabled/--disabled", "is_enabled", default=None, help="Only enabled ones, or only disabled.")
@click.option("--after", default="", metavar="ID", help="Only ids that come after this one.")
@limited(50)
@json_option
@pass_call
def list_manifests(
    call: Call,
    *,
    prefix: str,
    group: str | None,
    train: str | None,
    schedule_type: str | None,
    is_enabled: bool | None,
    after: str,
    limit: int | None,
    as_json: bool,
) -> None:
    """List manifests by external id."""
    wanted = ManifestFilter(
        prefix=prefix, group=group, train=train, schedule_type=schedule_type, is_enabled=is_enabled
    )

    async def read(session: CommandSession) -> PrintedRows[ManifestSummary]:
        desk = _desk(session)
        return await read_pages(
            lambda start, length: desk.list(replace(wanted, after=start, limit=length)),
            after,
            limit,
            option="--after",
            key="external_id",
        )

    emit_found(with_session(call, read), call.columns(*_COLUMNS), as_json=as_json)


@manifests.command(epilog=example("gandy manifests show report --json"))
@click.argument("external_id", metavar="ID")
@json_option
@pass_call
def show(call: Call, external_id: str, *, as_json: bool) -> None:
    """Show one manifest with the values in force."""
    emit_record(with_session(call, lambda session: _desk(session).show(external_id)), as_json=as_json)


@manifests.command(epilog=example("gandy manifests trigger report --delay 30m"))
@click.argument("external_id", metavar="ID")
@click.option("--delay", type=bounded("delay"), default="0s", metavar="D", help="Earliest start, from now.")
@click.option("--input", "text", type=json_input, metavar="JSON", help="Replaces the manifest's input.")
@json_option
@pass_call
def trigger(call: Call, external_id: str, *, delay: timedelta, text: str | None, as_json: bool) -> None:
    """Queue a run of the manifest, now or later, even if it is disabled."""
    triggered = with_session(
        call, lambda session: _desk(session).trigger(external_id, delay=delay, input_json=text)
    )
    emit_record(triggered, as_json=as_json)
    if not triggered.is_new:
        say("It was already queued; it runs at the earlier of the two instants.")


@manifests.command(
    epilog=example("""gandy manifests add sync-42 SyncTable --every 5m --input '{"table": "users"}'""")
)
@click.argument("external_id", metavar="ID", type=bounded("external_id"))
@click.argument("train", type=bounded("name"))
@adding_options
@json_option
@pass_call
def add(call: Call, /, external_id: str, train: str, *, as_json: bool, **given: object) -> None:
    """Make a manifest that no deploy removes, or change one that was made so.

    With an application, its types check the input. Without one, any JSON is accepted, a worker checks it when
    the manifest runs, and options that are not given are the settings', not the train's.
    """
    new = new_manifest(external_id, train, given)

    async def work(session: CommandSession) -> ManifestDetail:
        if session.registry is None:
            say(f"{train} is not known here: its type checks no input, and its options do not apply.")
        return await _desk(session).add(new, session.settings)

    emit_record(with_session(call, work), as_json=as_json)


@manifests.command("set", epilog=example("gandy manifests set report --cron '0 4 * * *' --timeout 2h"))
@click.argument("external_id", metavar="ID")
@setting_options
@json_option
@pass_call
def set_values(call: Call, /, external_id: str, *, as_json: bool, **given: object) -> None:
    """Override declared values; the overrides survive a deploy."""
    changes = changes_of(given)
    emit_record(with_session(call, lambda session: _desk(session).set(external_id, changes)), as_json=as_json)


@manifests.command(epilog=example("gandy manifests reset report"))
@click.argument("external_id", metavar="ID")
@json_option
@pass_call
def reset(call: Call, external_id: str, *, as_json: bool) -> None:
    """Clear all overrides, including a pause."""
    emit_record(with_session(call, lambda session: _desk(session).reset(external_id)), as_json=as_json)


@manifests.command(epilog=example("gandy manifests enable report"))
@click.argument("external_id", metavar="ID")
@json_option
@pass_call
def enable(call: Call, external_id: str, *, as_json: bool) -> None:
    """Enable a manifest."""
    emit_record(with_session(call, lambda session: _desk(session).enable(external_id)), as_json=as_json)


@manifests.command(epilog=example("gandy manifests disable report --reason 'the source is down'"))
@click.argument("external_id", metavar="ID")
@click.option("--reason", type=bounded("reason"), help="The reason, for the record.")
@json_option
@pass_call
def disable(call: Call, external_id: str, *, reason: str | None, as_json: bool) -> None:
    """Disable a manifest; a deploy does not enable it again."""
    detail = with_session(call, lambda session: _desk(session).disable(external_id, reason))
    emit_record(detail, as_json=as_json)


@manifests.command(epilog=example("gandy manifests cancel report"))
@click.argument("external_id", metavar="ID")
@json_option
@pass_call
def cancel(call: Call, external_id: str, *, as_json: bool) -> None:
    """Cancel its run and its queued entry; later occurrences and waiting activations are not affected."""
    result = with_session(call, lambda session: cancel_desk(session).manifest(external_id))
    emit_cancelled(result, as_json=as_json)


@manifests.command(epilog=example("gandy manifests delete extract-7 --yes"))
@click.argument("external_id", metavar="ID")
@yes_option
@pass_call
def delete(call: Call, external_id: str, *, yes: bool) -> None:
    """Delete a manifest that was created at run time or is no longer declared."""
    _delete(call, external_id, yes=yes)


@manifests.command(epilog=example("gandy manifests remove sync-42 --yes"))
@click.argument("external_id", metavar="ID")
@yes_option
@pass_call
def remove(call: Call, external_id: str, *, yes: bool) -> None:
    """Remove a manifest that `add` made; the same as `delete`."""
    _delete(call, external_id, yes=yes)


def _delete(call: Call, external_id: str, *, yes: bool) -> None:
    confirm(f"Delete manifest {external_id}?", yes=yes)
    removal = with_session(call, lambda session: _desk(session).delete(external_id))
    say("Deleted." if removal else "Its last run is still in progress; it is deleted when that run ends.")
    if removal.cancelled_entries:
        say(f"Queued and waiting entries cancelled with it: {removal.cancelled_entries:,}.")


@manifests.command(epilog=example("gandy manifests preview report --count 20"))
@click.argument("external_id", metavar="ID")
@click.option(
    "--count", type=click.IntRange(1, 1_000), default=10, show_default=True, help="Number of instants."
)
@json_option
@pass_call
def preview(call: Call, external_id: str, *, count: int, as_json: bool) -> None:
    """List the next instants with jitter; exclusions and daylight saving changes are marked."""

    async def read(session: CommandSession) -> tuple[Sequence[PreviewedInstant], str]:
        found = await preview_manifest(session.database, external_id, count, owners=session.owners)
        return found, (await _desk(session).show(external_id)).schedule

    found, schedule = with_session(call, read)
    emit_rows(found, ("local", "due_at", "scheduled_at", "note"), as_json=as_json)
    if not found:
        say(f"It has no instants to come: it runs {schedule}.")


@manifests.command(epilog=example("gandy manifests explain report"))
@click.argument("external_id", metavar="ID")
@json_option
@pass_call
def explain(call: Call, external_id: str, *, as_json: bool) -> None:
    """Explain why a manifest did or did not run, and what to do."""
    explanation = with_session(
        call, lambda session: explain_manifest(session.database, external_id, session.owners)
    )
    if as_json:
        emit_record(explanation, as_json=True)
    else:
        _print(explanation)


def _print(explanation: Explanation) -> None:
    shown = {name: getattr(explanation, name) for name in explanation.__slots__ if name not in _LISTS}
    emit_record(shown, as_json=False)
    for title, lines in (
        ("Holding it back", explanation.holding_back or (_nothing(explanation),)),
        ("What to do", explanation.what_to_do),
    ):
        if lines:
            print_text(f"\n{title}:")
            for line in lines:
                print_text(f"  - {human(line)}")
    print_text("\nLast verdicts:")
    emit_rows(explanation.verdicts, _VERDICT_COLUMNS, as_json=False)
    for verdict in explanation.verdicts:
        if verdict.error:
            print_text(f"  entry {verdict.entry_id}: {human(verdict.error)}")


def _nothing(explanation: Explanation) -> str:
    """Say when it is due if nothing else holds it back."""
    due = explanation.next_instant
    return "nothing" if due is None or due <= explanation.now else f"nothing; it is due at {human(due)}"


def _desk(session: CommandSession) -> ManifestDesk:
    return ManifestDesk(
        session.database, local_operator("cli"), owners=session.owners, registry=session.registry
    )
