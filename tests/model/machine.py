"""Random lives of an application: schedules, workers, people and the clock, in any order."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from gandy.errors import TriggerInputConflictError
from gandy.model.manifest import GroupDeclaration, ManifestDeclaration
from gandy.model.run import EndedBy, TrainState
from gandy.model.schedule import Dependent, DormantDependent, EdgeKind, edges_of
from gandy.store.cancelling import cancel_jobs
from gandy.store.letters import acknowledge_letters, requeue_letters
from gandy.store.overriding import override_group, override_manifest
from gandy.store.queueing import EnqueueRequest, Uniqueness, enqueue, trigger
from gandy.store.reading.listings import queue_rerun
from gandy.store.reaping import put_back
from tests.model.draws import (
    GROUPS,
    NAMES,
    ROUNDS,
    WORKERS,
    endings,
    ends,
    given_inputs,
    names,
    options,
    picks,
    several,
    spans,
    timed,
)
from tests.model.keeping import Keeping
from tests.model.moving import Step
from tests.model.site import SOMEBODY, TRAINS
from tests.support.world import OWNER, OWNERS, SPANS

if TYPE_CHECKING:
    from gandy.model.schedule import Schedule


class Life(Keeping):
    """One application from its first deploy on."""

    @initialize(first=timed, second=timed, given=options)
    def deploy(self, first: Schedule, second: Schedule, given: dict[str, object]) -> None:
        self.start_worker()
        self._declare("a", first, given)
        self._declare("b", second, {})
        self._declare("c", Dependent("a"), given)

    # what an application declares

    @rule(name=names, schedule=timed, given=options)
    def declare(self, name: str, schedule: Schedule, given: dict[str, object]) -> None:
        before = self.declared.get(name)
        self._declare(name, schedule if before is None else _again(before, schedule), given)

    @rule(name=names, parents=several, on=ends, is_dormant=st.booleans(), given=options)
    def declare_dependent(
        self, name: str, parents: list[str], on: EdgeKind, is_dormant: bool, given: dict[str, object]
    ) -> None:
        name = next((each for each in NAMES if each not in self.declared), name)
        above = [each for each in parents if each in self.declared]
        if not above or name in self.declared:
            return
        self._declare(name, DormantDependent(above[0]) if is_dormant else Dependent(*above, on=on), given)

    @rule(name=names, parents=several, on=ends, is_passed=st.booleans())
    def declare_other_parents(self, name: str, parents: list[str], on: EdgeKind, is_passed: bool) -> None:
        """Let a dependent follow other ends, of manifests that follow none: no cycle can come of it."""
        above = [each for each in parents if each in self.declared and self._is_root(each)]
        if not above or not isinstance(getattr(self.declared.get(name), "schedule", None), Dependent):
            return
        schedule = Dependent(above[0], is_output_passed=True) if is_passed else Dependent(*above, on=on)
        self.declared[name] = replace(self.declared[name], schedule=schedule)
        self.site.seed(list(self.declared.values()), GROUPS)
        self._done(Step("seed"))

    def _is_root(self, name: str) -> bool:
        return not edges_of(self.declared[name].schedule)

    def _declare(self, name: str, schedule: Schedule, given: dict[str, object]) -> None:
        self.declared[name] = ManifestDeclaration(
            external_id=name,
            train=TRAINS[NAMES.index(name) % len(TRAINS)],
            input_json="{}",
            input_type_name="Nothing",
            schedule=schedule,
            **given,  # type: ignore[arg-type]
        )
        self.site.seed(list(self.declared.values()), GROUPS)
        self._done(Step("seed"))

    @rule(name=names)
    def declare_no_longer(self, name: str) -> None:
        followed = [edge.parent for each in self.declared.values() for edge in edges_of(each.schedule)]
        is_parent = name in followed
        if name not in self.declared or is_parent or len(self.declared) == 1:
            return
        del self.declared[name]
        self.site.seed(list(self.declared.values()), GROUPS)
        self._done(Step("seed"))

    # what people do

    @rule(pick=picks, is_enabled=st.booleans())
    def switch_manifest(self, pick: int, is_enabled: bool) -> None:
        self.site.do(override_manifest(self._name(pick), {"is_enabled": is_enabled}, owner=OWNER))
        self._done(Step("override"))

    @rule(group=st.sampled_from(GROUPS), is_enabled=st.booleans())
    def switch_group(self, group: GroupDeclaration, is_enabled: bool) -> None:
        self.site.do(override_group(OWNER, group.name, {"is_enabled": is_enabled}))
        self._done(Step("override"))

    @rule(cap=st.sampled_from([1, 2, 5]))
    def narrow_group(self, cap: int) -> None:
        self.site.do(override_group(OWNER, "wide", {"max_active_jobs": cap}))
        self._done(Step("override"))

    @rule(
        pick=picks,
        delay=st.sampled_from([timedelta(0), timedelta(0), timedelta(minutes=1)]),
        input_json=st.sampled_from([None, None, '{"by": "hand"}']),
    )
    def trigger(self, pick: int, delay: timedelta, input_json: str | None) -> None:
        name = self._name(pick)
        try:
            self.site.do(trigger(name, delay=delay, input_json=input_json, owner=OWNER))
        except TriggerInputConflictError:
            (manifest,) = (m for m in self.before.manifests.values() if m["external_id"] == name)
            assert input_json is not None, "only another input is refused"
            assert self.before.waiting_of(manifest["id"]), "only a waiting entry is a reason to refuse"
        self._done(Step("trigger"))

    @rule(pick=picks)
    def cancel(self, pick: int) -> None:
        ids = sorted({*self.before.queued, *self.before.waiting, *self.before.live})
        if ids:
            job = ids[pick % len(ids)]
            self.site.do(cancel_jobs([job], SPANS, owners=OWNERS))
            self._done(Step("cancel", cancelled=frozenset({job})))

    @rule(pick=picks, is_requeued=st.booleans())
    @precondition(lambda self: self.before.letters)
    def resolve(self, pick: int, is_requeued: bool) -> None:
        ids = sorted(self.before.letters)
        letter = ids[pick % len(ids)]
        if is_requeued:
            self.site.do(requeue_letters([letter], SOMEBODY, owners=OWNERS))
        else:
            self.site.do(acknowledge_letters([letter], SOMEBODY, "seen", owners=OWNERS))
        self._done(Step("resolve"))

    @rule(pick=picks)
    def run_again(self, pick: int) -> None:
        ids = sorted(self.before.runs.keys() - self.before.live.keys())
        if ids:
            self.site.do(queue_rerun(ids[pick % len(ids)], owners=OWNERS))
            self._done(Step("rerun"))

    @rule(
        key=st.sampled_from([None, None, "x", "y"]),
        until=st.sampled_from(["start", "success"]),
        keep_for=st.sampled_from([None, timedelta(minutes=1)]),
        delay=st.sampled_from([timedelta(0), timedelta(seconds=30)]),
        policy=st.sampled_from([(None, None), (1, None), (2, True), (3, False)]),
        group=st.sampled_from(GROUPS),
    )
    def enqueue(
        self,
        key: str | None,
        until: str,
        keep_for: timedelta | None,
        delay: timedelta,
        policy: tuple[int | None, bool | None],
        group: GroupDeclaration,
    ) -> None:
        uniqueness = None
        if key is not None:
            uniqueness = Uniqueness(keys=[key], until=until, keep_for=keep_for)  # type: ignore[arg-type]
        request = EnqueueRequest(
            owner=OWNER,
            train=TRAINS[0],
            inputs=[None],
            input_type_name="Nothing",
            group=group.name,
            delay=delay,
            max_retries=policy[0],
            is_retried=policy[1],
            retry_delay=timedelta(seconds=5),
            uniqueness=uniqueness,
        )
        result = self.site.do(enqueue(request))
        if result.existing:
            (held,) = (k for k in self.before.keys.values() if k["key"] == key)
            assert result.ids == (held["id"],), "who holds the key stands for the new one"
            assert held["expires_at"] is None or held["expires_at"] > self.before.now
        self._done(Step("enqueue"))

    # what servers do

    @rule(trusts_leases=st.booleans(), limit=st.sampled_from([200, 200, None, 1]))
    def cycle(self, trusts_leases: bool, limit: int | None) -> None:
        self.site.cycle(trusts_leases=trusts_leases, limit=limit)
        self._done(Step("cycle", trusts_leases=trusts_leases))

    @rule(span=spans, trusts_leases=st.booleans())
    def sleep_and_cycle(self, span: timedelta, trusts_leases: bool) -> None:
        self.pass_time(span, True)
        self.cycle(trusts_leases, 200)

    @rule(cap=st.sampled_from([None, 2, 4]))
    def dispatch(self, cap: int | None) -> None:
        self.site.dispatch(cap)
        self._done(Step("dispatch", cap=cap))

    @rule()
    def start_worker(self) -> None:
        self.started += 1
        worker_id = f"worker-{self.started}"
        self.site.register(worker_id)
        self.workers = [*self.workers, worker_id][-WORKERS:]
        self._done(Step("register"))

    @rule(pick=picks, limit=st.sampled_from([1, 2, 10]), is_pending=st.booleans(), renews=st.booleans())
    def claim(self, pick: int, limit: int, is_pending: bool, renews: bool) -> None:
        """Ask for work; a worker that was frozen asks before it notices that it was found lost."""
        worker_id = self.workers[pick % len(self.workers)]
        if self.site.renew(worker_id) if renews else worker_id in self.before.workers:
            self._taken(self.site.claim(worker_id, limit, is_pending=is_pending))

    @rule(ending=endings, limit=st.sampled_from([1, 2, 10]))
    def claim_and_finish(self, ending: tuple[TrainState, EndedBy], limit: int) -> None:
        if self.site.renew(self.workers[-1]):
            claims = self.site.claim(self.workers[-1], limit)
            self._taken(claims)
            self._finish(claims, ending)

    @rule(pick=picks, ending=endings, inputs=given_inputs)
    @precondition(lambda self: self.claims)
    def finish(self, pick: int, ending: tuple[TrainState, EndedBy], inputs: tuple[str | None, ...]) -> None:
        """End a run, or try to: the claim may be long lost."""
        self._finish([self.claims[pick % len(self.claims)]], ending, inputs=inputs)

    @rule(name=names, parent=names, inputs=given_inputs, ending=endings)
    def activate(
        self, name: str, parent: str, inputs: tuple[str | None, ...], ending: tuple[TrainState, EndedBy]
    ) -> None:
        """A run of a parent activates; a run of the dependent ends before all of it has had its turn."""
        self.declare_dependent(name, [parent], EdgeKind.SUCCESS, is_dormant=True, given={})
        schedules = [each.schedule for each in self.declared.values()]
        for sleeper in [each for each in schedules if isinstance(each, DormantDependent)][:1]:
            self.trigger(list(self.declared).index(sleeper.parent), timedelta(0), None)
            self.claim(len(self.workers) - 1, 10, is_pending=False, renews=True)
            mine = [claim for claim in self.claims if claim.run.manifest == sleeper.parent]
            self._finish(mine[:1], (TrainState.COMPLETED, EndedBy.ITSELF), inputs=inputs)
            self.claim_and_finish(ending, 10)

    @rule(pick=picks)
    @precondition(lambda self: self.claims)
    def return_unbegun(self, pick: int) -> None:
        claim = self.claims[pick % len(self.claims)]
        ids = frozenset({claim.run.id}) if self.ledger.holds(claim) else frozenset()
        self.site.do(put_back(list(ids), claim.worker_id))
        self._done(Step("put back", put_back=ids))

    # short stories, which chance alone tells too rarely

    @rule(pick=picks, span=st.sampled_from([timedelta(seconds=14), timedelta(seconds=20)]))
    def freeze_a_worker(self, pick: int, span: timedelta) -> None:
        """It comes back after somebody has missed it, asks for more, and ends what it had."""
        worker_id = self.workers[pick % len(self.workers)]
        self.site.renew(worker_id)
        self.claim(pick, 2, is_pending=False, renews=False)
        self.pass_time(span, renews=False)
        self.cycle(trusts_leases=True, limit=200)
        self.claim(pick, 2, is_pending=bool(pick % 2), renews=False)
        held = [claim for claim in self.claims if claim.worker_id == worker_id]
        self._finish(held, (TrainState.COMPLETED, EndedBy.ITSELF))

    @rule(pick=picks, is_enabled=st.booleans())
    def end_what_was_put_back(self, pick: int, is_enabled: bool) -> None:
        """One worker returns a run, another takes it if it may, and the first ends it all the same."""
        self.trigger(pick, timedelta(0), None)
        self.claim(pick, 10, is_pending=False, renews=True)
        held = [claim for claim in self.claims if self.ledger.holds(claim)]
        if held:
            claim = held[pick % len(held)]
            self.switch_manifest(pick, is_enabled)
            self.return_unbegun(self.claims.index(claim))
            self.start_worker()
            self.claim(len(self.workers) - 1, 10, is_pending=False, renews=True)
            self._finish([claim], (TrainState.FAILED, EndedBy.ITSELF))

    @rule(pick=picks)
    def fail_until_parked(self, pick: int) -> None:
        for _ in range(3):
            self.trigger(pick, timedelta(0), None)
            self.claim_and_finish((TrainState.FAILED, EndedBy.ITSELF), 10)
        self.cycle(trusts_leases=False, limit=None)

    @rule(which=st.sampled_from(["metadata", "letters", "tables"]))
    def clean_up(self, which: str) -> None:
        past = self.site.past
        if which == "metadata":
            self.site.call(past.metadata_cleanup(batch_size=2))
        elif which == "letters":
            self.site.call(past.dead_letter_cleanup())
        else:
            self.site.call(past.table_maintenance())
        self._done(Step("cleanup"))

    # time

    @rule(span=spans, renews=st.booleans())
    def pass_time(self, span: timedelta, renews: bool) -> None:
        """Let time pass; workers that live renew their leases, those that are frozen or gone do not."""
        if renews:
            for worker_id in self.workers:
                self.site.renew(worker_id)
        self.site.advance(span)
        self._done(Step("time"))

    def teardown(self) -> None:
        """Whatever has happened: when everything is switched on, everything that waits gets its turn."""
        for name, each in self.declared.items():
            changes: dict[str, object] = {"is_enabled": True}
            if not edges_of(each.schedule):  # one run makes up for a long time switched off
                changes["misfire_policy"] = "fire_once_now"
            self.site.do(override_manifest(name, changes, owner=OWNER))
        for group in GROUPS:
            self.site.do(override_group(OWNER, group.name, None))
        self._done(Step("override"))
        self.pass_time(timedelta(hours=2), False)
        self.start_worker()
        self.cycle(True, None)
        for _ in range(ROUNDS):
            if not self._work_off():
                break
        self._expect_rest()

    def _resolve_all(self) -> None:
        for letter in sorted(self.before.letters):
            self.site.do(acknowledge_letters([letter], SOMEBODY, "seen", owners=OWNERS))
        self._done(Step("resolve"))

    def _work_off(self) -> bool:
        """Claim all there is, wherever it waits, and let it succeed."""
        self._resolve_all()
        worker_id = self.workers[-1]
        claims = [*self.site.claim(worker_id, 100), *self.site.claim(worker_id, 100, is_pending=True)]
        self._taken(claims)
        self._finish(claims, (TrainState.COMPLETED, EndedBy.ITSELF))
        self.cycle(True, None)
        return bool(claims or self._due() or self._turns())

    def _expect_rest(self) -> None:
        """Nothing that is due waits, nothing runs, and every success of a parent was followed."""
        seen = self.before
        assert not self._due(), f"what is due gets its turn: {self._due()}"
        assert not self._turns(), f"what waits gets its turn: {self._turns()}"
        assert not seen.live, f"what runs comes to an end: {seen.live}"
        for manifest in seen.manifests.values():
            edges = seen.edges_of(manifest["id"])
            if manifest["schedule_type"] == "dependent" and not manifest["orphaned_at"]:
                is_due = all(seen.ended(edge) > edge["seen"] for edge in edges)
                assert edges, "a dependent has parents"
                assert not is_due, f"the ends of its parents are followed: {manifest['external_id']}"


def _again(before: ManifestDeclaration, schedule: Schedule) -> Schedule:
    """Only the kinds that may follow each other: a dependent stays one."""
    if isinstance(before.schedule, Dependent | DormantDependent):
        return before.schedule
    return schedule
