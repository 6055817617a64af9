"""The books of one life: after every step the tables are compared with what ought to be in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from hypothesis.stateful import RuleBasedStateMachine

from gandy.model.run import Activation, TrainState
from gandy.model.schedule import DormantDependent
from tests.model.draws import REMEMBERED
from tests.model.ledger import Ledger
from tests.model.moving import Step, moving_faults
from tests.model.site import MOMENT
from tests.model.standing import standing_faults

if TYPE_CHECKING:
    from gandy.model.manifest import ManifestDeclaration
    from gandy.model.run import EndedBy
    from tests.model.site import Claim, Site
    from tests.model.snapshot import Row, Snapshot


class Keeping(RuleBasedStateMachine):
    """Does things on a site, and holds it to the model."""

    site: ClassVar[Site]

    def __init__(self) -> None:
        super().__init__()
        self.site.empty()
        self.ledger = Ledger()
        self.declared: dict[str, ManifestDeclaration] = {}
        self.claims: list[Claim] = []
        self.workers: list[str] = []
        self.started = 0
        self.before: Snapshot = self.site.snapshot()

    def _due(self) -> list[Row]:
        seen = self.before
        return [
            entry
            for entry in seen.queued.values()
            if entry["scheduled_at"] <= seen.now and not _is_orphaned(seen, entry)
        ]

    def _turns(self) -> list[Row]:
        return [entry for entry in self.before.waiting.values() if not _is_orphaned(self.before, entry)]

    def _name(self, pick: int) -> str:
        return list(self.declared)[pick % len(self.declared)]

    def _taken(self, claims: list[Claim]) -> None:
        self.ledger.take(claims)
        self.claims = [*claims, *self.claims][:REMEMBERED]
        self._done(Step("claim"))

    def _finish(
        self,
        claims: list[Claim],
        ending: tuple[TrainState, EndedBy],
        *,
        inputs: tuple[str | None, ...] = (),
    ) -> None:
        """End runs; those that complete activate each of their dormant dependents with these inputs."""
        ends = {claim.run.id: ending for claim in claims if self.ledger.holds(claim)}
        asked = {
            claim.run.id: tuple(
                Activation(name, text) for name in self._sleepers(claim.run.manifest) for text in inputs
            )
            for claim in claims
        }
        result = self.site.finish(claims, *ending, activations=asked)
        assert set(result.finished) == set(ends), "whose claim still owns the run ends it, and nobody else"
        assert not result.refused_activations, result.refused_activations
        is_done = ending[0] is TrainState.COMPLETED
        kept = [each for run_id, some in asked.items() if is_done and run_id in ends for each in some]
        activated = tuple((each.external_id, each.input_json or "{}") for each in kept)
        self._done(Step("finish", ends=ends, activated=activated))

    def _sleepers(self, parent: str | None) -> list[str]:
        return [
            name
            for name, each in self.declared.items()
            if isinstance(each.schedule, DormantDependent) and each.schedule.parent == parent
        ]

    def _done(self, step: Step) -> None:
        after = self.site.snapshot()
        faults = [
            *standing_faults(after),
            *moving_faults(self.before, after, step),
            *self.ledger.follow(self.before, after, step),
            *self.site.wrong_hints(),
        ]
        self.before = after
        self.site.advance(MOMENT)
        assert not faults, "\n".join(faults)


def _is_orphaned(seen: Snapshot, entry: Row) -> bool:
    manifest = seen.manifests.get(entry["manifest_id"])
    return manifest is not None and manifest["orphaned_at"] is not None
