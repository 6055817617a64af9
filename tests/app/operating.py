"""Every verb that Python has for operators, with calls of each."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gandy import every
from gandy.app.verbs.dead_letters import DeadLetterVerbs
from gandy.app.verbs.face import Verb
from gandy.app.verbs.groups import GroupVerbs
from gandy.app.verbs.manifests import ManifestVerbs
from gandy.app.verbs.queue import QueueVerbs
from gandy.app.verbs.reports import AuditVerbs, UpcomingVerbs
from gandy.app.verbs.runs import RunVerbs
from tests.doors.neighbours import send

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gandy import Gandy
    from gandy.app.sync import SyncGandy
    from gandy.app.verbs.face import Verbs
    from tests.doors.neighbours import Belongings

NOUNS: Final[Mapping[str, type[Verbs[Any]]]] = {
    kind.noun: kind
    for kind in (ManifestVerbs, GroupVerbs, RunVerbs, QueueVerbs, DeadLetterVerbs, AuditVerbs, UpcomingVerbs)
}
VERBS: Final[Mapping[str, Verb[..., Any]]] = {
    f"{noun}.{name}": verb
    for noun, kind in NOUNS.items()
    for name, verb in vars(kind).items()
    if isinstance(verb, Verb)
}
NEXT: Final = datetime(2090, 1, 2, tzinfo=UTC)


class Given(NamedTuple):
    """The arguments of one call."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = {}


def given(*args: object, **kwargs: object) -> Given:
    """Note the arguments of a call."""
    return Given(args, kwargs)


#: Calls of each verb, in an order in which all of them do something; made of the ids of the caller's rows.
CALLS: Final[Mapping[str, Callable[[Belongings], Sequence[Given]]]] = {
    "manifests.list": lambda _: [given(), given(prefix="p", train=send), given(enabled=False, limit=1)],
    "manifests.show": lambda _: [given("nightly")],
    "manifests.explain": lambda _: [given("paused"), given("parked")],
    "manifests.preview": lambda _: [given("nightly", count=3)],
    "groups.list": lambda _: [given(), given(prefix="e")],
    "groups.show": lambda _: [given("etl")],
    "groups.preview_trigger": lambda _: [given("etl")],
    "groups.preview_cancel": lambda _: [given("etl")],
    "runs.list": lambda _: [given(), given(train="send", state="failed", limit=2), given(manifest="parked")],
    "runs.show": lambda found: [given(job) for job in found.jobs],
    "runs.logs": lambda found: [given(found.jobs[0], limit=10)],
    "runs.preview_cancel": lambda _: [given(state="in_progress"), given(train=send)],
    "runs.preview_rerun_many": lambda _: [given(state="failed"), given(train=send, error_has="unlucky")],
    "queue.show": lambda found: [given(job) for job in found.jobs],
    "queue.explain": lambda found: [given(job) for job in found.jobs],
    "audit.list": lambda _: [given(), given(by="ada"), given(on="nightly", since=timedelta(days=1))],
    "upcoming.list": lambda _: [given(), given(within=timedelta(hours=3), limit=1)],
    "queue.list": lambda _: [given(), given(status="all", train=send), given(gate="time", group="default")],
    "queue.preview_cancel": lambda _: [given(train="send"), given(status="queued", gate="time")],
    "dead_letters.list": lambda _: [given(), given(status="all", train=send), given(manifest="parked")],
    "dead_letters.show": lambda found: [given(letter) for letter in found.letters],
    "dead_letters.preview_requeue": lambda _: [given(), given(manifest="parked")],
    "dead_letters.preview_acknowledge": lambda _: [given(train=send)],
    "manifests.add": lambda _: [
        given("made", send, every(hours=2), input=3, priority=4, as_operator="ada"),
        given("made-after", "send", input=4, after="made", dormant=True),
    ],
    "manifests.trigger": lambda _: [given("made", delay=timedelta(hours=1), input=5), given("nightly")],
    "manifests.set": lambda _: [
        given("made", schedule=every(hours=3), input=6, next=NEXT, timeout=timedelta(minutes=1)),
        given("paused", misfire="catch_up", exclude=[]),
    ],
    "manifests.reset": lambda _: [given("made")],
    "manifests.enable": lambda _: [given("paused")],
    "manifests.disable": lambda _: [given("paused", reason="a test", as_operator="ada")],
    "manifests.cancel": lambda _: [given("made")],
    "manifests.delete": lambda _: [given("made-after")],
    "manifests.remove": lambda _: [given("made")],
    "groups.set": lambda _: [given("etl", max_active_jobs=9, priority=3, enabled=True, reason="a test")],
    "groups.reset": lambda _: [given("etl")],
    "groups.trigger": lambda _: [given("etl")],
    "groups.cancel": lambda _: [given("etl")],
    "runs.rerun": lambda found: [given(job, input=8) for job in found.jobs],
    "runs.rerun_many": lambda found: [given(*found.jobs), given(train=send, state="failed", error_has="no")],
    "runs.cancel": lambda found: [given(*found.jobs[:2]), given(train=send, state="in_progress")],
    "runs.fail": lambda found: [given(job, reason="a test") for job in found.jobs],
    "queue.enqueue": lambda _: [given(send, 9, priority=5), given("send", 9, key="once"), given(send)],
    "queue.cancel": lambda found: [given(found.jobs[-1]), given(train=send, as_operator="ada")],
    "dead_letters.requeue": lambda found: [given(found.letters[0], input=2), given(all=True, train="else")],
    "dead_letters.acknowledge": lambda found: [
        given(found.letters[0], note="seen"),
        given(all=True, manifest="parked", note="seen"),
    ],
}


def open_later(app: Gandy | SyncGandy, name: str) -> Callable[..., Any]:
    """Find a verb of an application, or of its sync interface, by `noun.verb`."""
    noun, verb = name.split(".")
    found: Callable[..., Any] = getattr(getattr(app, noun), verb)
    return found
