"""The books of one life: after every step the tables are compared with what ought to be in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from hypothesis.stateful import RuleBasedStateMachine

from gandy.model.schedule import DormantDependent
from tests.model.draws import REMEMBERED
from tests.model.ledger import Ledger
from tests.model.moving import Step, moving_faults
from tests.model.site import MOMENT
from tests.model.standing import standing_faults

if TYPE_CHECKING:
    from gandy.model.declaration import ManifestDeclaration
    from gandy.model.run import EndedBy, TrainState
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

    def _name(self, pick: int) -> str:
        return list(self.declared)[pick % len(self.declared)]

    def _taken(self, claims: list[Claim]) -> None:
        self.ledger.take(claims)
        self.claims = [*claims, *self.claims][:REMEMBERED]
        self._done(Step("claim"))

    def _finish(
        self, claims: list[Claim], ending: tuple[TrainState, EndedBy], *, activates: bool = False
    ) -> None:
        ends = {claim.run.id: ending for claim in claims if self.ledger.holds(claim)}
        sleepers = tuple(
            (name, None)
            for name, each in self.declared.items()
            if isinstance(each.schedule, DormantDependent)
        )
        result = self.site.finish(claims, *ending, activations=sleepers if activates else ())
        assert set(result.finished) == set(ends), "whose claim still owns the run ends it, and nobody else"
        self._done(Step("finish", ends=ends))

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
